"""The ends of a partition, and the first record at or after a time (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.broker.partitions import check_leader_epoch
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.log.ports import PartitionLogPort, TimestampAndOffset
from headrace.records.walk import Search
from headrace.replication.leader import PartitionLeader
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, HandlerResult, Reply
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_KNOWN_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_FIRST_WITH_OFFSET_NOT_AVAILABLE = 5
_FIRST_WITH_EPOCH = 4
_READ_COMMITTED = 1
_NEVER = 1 << 15
_CONSUMER = -1
_SEARCHES_IN_PLACE = 8
"""So many partitions may have their records looked at in one turn of the event loop."""


def handle(request: ListOffsetsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Each partition by itself; a repeated one is refused, once (B24)."""
    return _Call(request, context, broker).result()


class _Call:
    """One request: partition after partition, as looking into the records of a batch may take a while."""

    def __init__(self, request: ListOffsetsRequest, context: RequestContext, broker: Broker) -> None:
        self._request = request
        self._context = context
        self._broker = broker
        self._answers: dict[str, list[ListOffsetsPartitionResponse]] = {}
        self._todo = self._asked()
        self._searches = 0
        self._is_answered = self._is_waiting = False
        self._deferred: Deferred | None = None

    def _asked(self) -> Iterator[tuple[str, ListOffsetsPartition, bool]]:
        """(topic, partition, whether it is asked for twice)."""
        asked: dict[str, dict[int, tuple[ListOffsetsPartition, bool]]] = {}
        for topic in self._request.topics:
            for partition in topic.partitions:
                known = asked.setdefault(topic.name, {})
                index = partition.partition_index
                known[index] = (partition, index in known)
        for name, partitions in asked.items():
            self._answers[name] = []
            for one, is_repeated in partitions.values():
                yield name, one, is_repeated

    def result(self) -> HandlerResult:
        """The reply, now or later."""
        if self._go_on():
            return self._reply()
        self._deferred = Deferred()
        return self._deferred

    def _reply(self) -> Reply:
        topics = [ListOffsetsTopicResponse(name=name, partitions=tuple(each)) for name, each in self._answers.items()]
        return Reply(ListOffsetsResponse(topics=tuple(topics)))

    def _go_on(self) -> bool:
        """Answer for the partitions that are left; False if one of them must wait for a search."""
        if self._deferred is not None and self._deferred.is_done:
            return False  # nobody waits for it any more
        for name, one, is_repeated in self._todo:
            if is_repeated:
                self._add(name, _failed(one, ErrorCode.INVALID_REQUEST))
            elif not self._answer(name, one):
                return False
        return True

    def _add(self, topic: str, answer: ListOffsetsPartitionResponse) -> None:
        if self._context.api_version < _FIRST_WITH_EPOCH:
            answer = replace(answer, leader_epoch=-1)
        self._answers[topic].append(answer)

    def _answer(self, topic: str, asked: ListOffsetsPartition) -> bool:
        """True if there is an answer by now."""
        version, broker = self._context.api_version, self._broker
        leader = self._leader(topic, asked)
        if isinstance(leader, ErrorCode):
            self._add(topic, _failed(asked, leader))
            return True
        plain = _without_search(asked, self._request, leader, version)
        if plain is not None:
            self._add(topic, plain)
            return True
        self._searches += 1
        self._is_answered = False
        broker.walks.in_turn(
            lambda: self._search(topic, asked),
            lambda hit: self._found(topic, asked, hit),
            asker=self._context.client_host,
            is_wanted=lambda: self._deferred is None or not self._deferred.is_done,
            in_place=self._searches <= _SEARCHES_IN_PLACE,
        )
        self._is_waiting = not self._is_answered
        return self._is_answered

    def _found(self, topic: str, asked: ListOffsetsPartition, hit: TimestampAndOffset | ErrorCode | None) -> None:
        """A search is over: answer for its partition, and go on with the next one if the request waited for this."""
        leader = self._leader(topic, asked) if not isinstance(hit, ErrorCode) else hit
        if isinstance(leader, ErrorCode):
            self._add(topic, _failed(asked, leader))
        else:
            assert not isinstance(hit, ErrorCode), "an error was told before"
            self._add(topic, _searched(asked, self._request, leader, self._context.api_version, hit))
        self._is_answered = True
        if self._is_waiting:
            self._is_waiting = False
            if self._go_on():
                assert self._deferred is not None, "who waits has a deferred reply"
                self._deferred.complete(self._reply())

    def _search(self, topic: str, asked: ListOffsetsPartition) -> Search[TimestampAndOffset | ErrorCode | None]:
        """What the log finds, when its turn has come; a disk that fails meanwhile is an error of its partitions."""
        leader = self._leader(topic, asked)
        if isinstance(leader, ErrorCode):
            return leader
        log = leader.log
        try:
            if asked.timestamp == MAX_TIMESTAMP:
                return (yield from log.max_timestamp())
            return (yield from log.offset_for_timestamp(asked.timestamp))
        except StorageFault as fault:
            self._broker.unreadable(fault)
            return ErrorCode.KAFKA_STORAGE_ERROR

    def _leader(self, topic: str, asked: ListOffsetsPartition) -> PartitionLeader | ErrorCode:
        """Who is asked, or why nobody is."""
        if asked.timestamp < 0 and self._context.api_version < _KNOWN_SINCE.get(asked.timestamp, _NEVER):
            return ErrorCode.UNSUPPORTED_VERSION
        partitions, index = self._broker.partitions, asked.partition_index
        own = partitions.get(topic, index) if self._request.replica_id != _CONSUMER else None
        if own is not None and own.leader is not None:  # a replica is served also while clients are not
            return check_leader_epoch(asked.current_leader_epoch, own.leader.leader_epoch) or own.leader
        hosted = partitions.leading(topic, index, self._broker.image, current_leader_epoch=asked.current_leader_epoch)
        if isinstance(hosted, ErrorCode):
            return hosted
        leader = hosted.leader
        assert leader is not None, "leading returns leaders"
        return leader


def _readable_end(request: ListOffsetsRequest, log: PartitionLogPort) -> int:
    """What the asker may read ends here."""
    if request.replica_id != _CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark


def _is_unavailable(request: ListOffsetsRequest, leader: PartitionLeader) -> bool:
    return request.replica_id == _CONSUMER and leader.log.high_watermark < leader.epoch_start


def _without_search(
    asked: ListOffsetsPartition, request: ListOffsetsRequest, leader: PartitionLeader, version: int
) -> ListOffsetsPartitionResponse | None:
    """The answer, unless records must be looked into for it."""
    log = leader.log
    if asked.timestamp == LATEST:
        if _is_unavailable(request, leader):
            return _failed(asked, _not_available(version))
        return _found(asked, _readable_end(request, log), -1, leader.leader_epoch)
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _found(asked, log.log_start_offset, -1, _epoch_at(log, log.log_start_offset))
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _found(asked, -1, -1, -1)
    return None


def _searched(
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    leader: PartitionLeader,
    version: int,
    hit: TimestampAndOffset | None,
) -> ListOffsetsPartitionResponse:
    if hit is not None and hit.offset < _readable_end(request, leader.log):
        return _found(asked, hit.offset, hit.timestamp, hit.leader_epoch)
    if _is_unavailable(request, leader):
        return _failed(asked, _not_available(version))
    return _found(asked, -1, -1, -1)


def _epoch_at(log: PartitionLogPort, offset: int) -> int:
    epoch = log.epoch_at(offset)
    return -1 if epoch is None else epoch


def _not_available(version: int) -> ErrorCode:
    """A new leader tells no end until it has reached its own epoch's start (P7)."""
    if version >= _FIRST_WITH_OFFSET_NOT_AVAILABLE:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _found(asked: ListOffsetsPartition, offset: int, timestamp: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
