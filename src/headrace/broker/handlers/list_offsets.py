"""Where does a partition begin and end, and which record is the first at or after a time? (ListOffsets)"""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.broker.partitions import check_leader_epoch
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.log.ports import PartitionLogPort
from headrace.replication.leader import PartitionLeader
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
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


def handle(request: ListOffsetsRequest, context: RequestContext, broker: Broker) -> Reply:
    """Each partition by itself; a repeated one is refused, once (B24)."""
    asked: dict[str, dict[int, ListOffsetsPartition | None]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            known = asked.setdefault(topic.name, {})
            index = partition.partition_index
            known[index] = None if index in known else partition
    topics = []
    for name, partitions in asked.items():
        answers = []
        for index, one in partitions.items():
            if one is None:
                answers.append(
                    ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
                )
                continue
            answer = _answer(name, one, request, context, broker)
            if context.api_version < _FIRST_WITH_EPOCH:
                answer = replace(answer, leader_epoch=-1)
            answers.append(answer)
        topics.append(ListOffsetsTopicResponse(name=name, partitions=tuple(answers)))
    return Reply(ListOffsetsResponse(topics=tuple(topics)))


def _answer(
    topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, context: RequestContext, broker: Broker
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and context.api_version < _KNOWN_SINCE.get(asked.timestamp, _NEVER):
        return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    hosted = broker.partitions.leading(topic, asked.partition_index, broker.image)
    if isinstance(hosted, ErrorCode):
        return _failed(asked, hosted)
    leader = hosted.leader
    assert leader is not None, "leading returns leaders"
    error = check_leader_epoch(asked.current_leader_epoch, leader.leader_epoch)
    if error:
        return _failed(asked, error)
    try:
        return _look_up(asked, request, leader, context.api_version)
    except StorageFault as fault:
        broker.unreadable(fault)
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)


def _look_up(
    asked: ListOffsetsPartition, request: ListOffsetsRequest, leader: PartitionLeader, version: int
) -> ListOffsetsPartitionResponse:
    log = leader.log
    is_consumer = request.replica_id == _CONSUMER
    if not is_consumer:
        readable = log.log_end_offset
    elif request.isolation_level == _READ_COMMITTED:
        readable = log.last_stable_offset
    else:
        readable = log.high_watermark
    unavailable = is_consumer and log.high_watermark < leader.epoch_start
    if asked.timestamp == LATEST:
        if unavailable:
            return _failed(asked, _not_available(version))
        return _found(asked, readable, -1, leader.leader_epoch)
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _found(asked, log.log_start_offset, -1, _epoch_at(log, log.log_start_offset))
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _found(asked, -1, -1, -1)
    hit = log.max_timestamp() if asked.timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(asked.timestamp)
    if hit is not None and hit.offset < readable:
        return _found(asked, hit.offset, hit.timestamp, hit.leader_epoch)
    if unavailable:
        return _failed(asked, _not_available(version))
    return _found(asked, -1, -1, -1)


def _epoch_at(log: PartitionLogPort, offset: int) -> int:
    epoch = log.epoch_at(offset)
    return -1 if epoch is None else epoch


def _not_available(version: int) -> ErrorCode:
    """P7: a new leader tells no end until it has reached its own epoch's start."""
    if version >= _FIRST_WITH_OFFSET_NOT_AVAILABLE:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _found(asked: ListOffsetsPartition, offset: int, timestamp: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
