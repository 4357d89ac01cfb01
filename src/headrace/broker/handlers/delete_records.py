"""The deletion of a partition's oldest records (DeleteRecords, KIP-107)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.partitions import HostedPartition, LogStartOf
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, HandlerResult, Operation, Reply
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_TO_HIGH_WATERMARK = -1


class _Deletion:
    """One partition: its new log start, and whether every replica that is up has taken it over."""

    __slots__ = ("_broker", "at_first", "error", "hosted", "index", "offset")

    def __init__(
        self, index: int, hosted: HostedPartition | None, *, offset: int = -1, error: ErrorCode, broker: Broker
    ) -> None:
        self.index = index
        self.hosted = hosted
        self.offset = offset
        self.error = error
        self._broker = broker
        self.at_first = self.low_watermark()

    def low_watermark(self) -> int:
        """The lowest log start of the replicas on brokers that are not fenced, -1 when that is not known."""
        if self.error or self.hosted is None or self.hosted.leader is None:
            return -1
        leader = self.hosted.leader
        brokers = self._broker.image.cluster.brokers
        starts = [leader.log.log_start_offset]
        for follower in leader.followers.values():
            registered = brokers.get(follower.broker_id)
            if registered is not None and not registered.fenced:
                starts.append(follower.log_start_offset)
        return min(starts)

    def is_done(self) -> bool:
        """Nothing is left to wait for."""
        if not self.error and (self.hosted is None or self.hosted.leader is None):
            self.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return bool(self.error) or self.low_watermark() >= self.offset

    def result(self) -> DeleteRecordsPartitionResult:
        """Where the time was up the low watermark is that of the beginning, as Kafka has it."""
        low_watermark = self.at_first if self.error is ErrorCode.REQUEST_TIMED_OUT else self.low_watermark()
        return DeleteRecordsPartitionResult(
            partition_index=self.index, low_watermark=low_watermark, error_code=self.error
        )


def handle(request: DeleteRecordsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Raise the log starts here, answer when all replicas have followed or the time is up. Of a partition that comes twice the last counts."""
    asked: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            asked.setdefault(topic.name, {})[partition.partition_index] = partition
    topics = {name: [_delete(name, one, broker) for one in partitions.values()] for name, partitions in asked.items()}
    everything = [deletion for deletions in topics.values() for deletion in deletions]
    if all([deletion.is_done() for deletion in everything]):
        return _reply(topics)

    def timed_out() -> AnyReply:
        for deletion in everything:
            if not deletion.is_done():
                deletion.error = ErrorCode.REQUEST_TIMED_OUT
        return _reply(topics)

    deferred = Deferred(
        deadline_ms=context.now_ms + max(0, request.timeout_ms),
        on_timeout=timed_out,
        operation=Operation.DELETE_RECORDS,
    )
    partitions = [deletion.hosted for deletion in everything if deletion.hosted is not None]
    keys = [*partitions, *(LogStartOf(hosted) for hosted in partitions)]
    broker.purgatory.watch(
        deferred,
        keys,
        lambda: all([deletion.is_done() for deletion in everything]) and deferred.complete(_reply(topics)),
    )
    return deferred


def _reply(topics: dict[str, list[_Deletion]]) -> Reply:
    return Reply(
        DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(name=name, partitions=tuple(deletion.result() for deletion in deletions))
                for name, deletions in topics.items()
            )
        )
    )


def _delete(topic: str, asked: DeleteRecordsPartition, broker: Broker) -> _Deletion:
    def refused(error: ErrorCode) -> _Deletion:
        return _Deletion(index, None, error=error, broker=broker)

    index = asked.partition_index
    if topic in INTERNAL_TOPICS and broker.image.topics.partition(topic, index) is not None:
        return refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    hosted = broker.partitions.leading(topic, index, broker.image)
    if isinstance(hosted, ErrorCode):
        return refused(hosted)
    leader = hosted.leader
    assert leader is not None, "leading returns leaders"
    log = leader.log
    if log.config.cleanup_policy == {"compact"}:
        return refused(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if asked.offset == _TO_HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= log.high_watermark:
        return refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        log.advance_log_start(offset)
    except StorageFault as fault:
        broker.on_storage_fault(fault)
        return refused(ErrorCode.KAFKA_STORAGE_ERROR)
    return _Deletion(index, hosted, offset=offset, error=ErrorCode.NONE, broker=broker)
