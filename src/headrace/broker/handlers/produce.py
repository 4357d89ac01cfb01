"""Where do a producer's batches go, and when is it told? (Produce)

A hot file: one batch for one partition, already led here, is the case that it is written for.
"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.leader_hints import leader_hint, node_hint
from headrace.broker.partitions import HostedPartition
from headrace.broker.reply import NO_REPLY, AnyReply, CloseConnection, Deferred, HandlerResult, Reply
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.log.ports import AppendRefused
from headrace.wire.codec import decode
from headrace.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_FIRST_BY_ID = 13
_FIRST_WITH_HINTS = 10
_FIRST_WITH_ZSTD = 7
_ZSTD = 4
_ADMIN_CLIENT_ID = "__admin_client"
_ATTRIBUTES_LOW_BYTE = 22
_NO_RECORDS = memoryview(b"")


class _Write:
    """One partition's share of a request: where it went, or why it did not."""

    __slots__ = ("answer", "end_offset", "hosted", "leader_epoch")

    def __init__(self, answer: PartitionProduceResponse) -> None:
        self.answer = answer
        self.hosted: HostedPartition | None = None
        self.leader_epoch = -1
        self.end_offset = -1


def handle(body: memoryview, context: RequestContext, broker: Broker) -> HandlerResult:
    """Append every partition's batch, then answer by `acks`."""
    request = decode(ProduceRequest, body, context.api_version)
    call = _Call(request, context, broker)
    call.append_all()
    if request.acks == 0:
        return call.silent_result()
    if request.acks == -1 and not call.are_committed():
        return call.wait()
    return Reply(call.response())


class _Call:
    """One Produce request on its way: what was appended, what is waited for."""

    __slots__ = ("_broker", "_context", "_request", "_topics", "_writes")

    def __init__(self, request: ProduceRequest, context: RequestContext, broker: Broker) -> None:
        self._request = request
        self._context = context
        self._broker = broker
        self._topics: list[tuple[str, Uuid, list[_Write]]] = []
        self._writes: list[_Write] = []

    # --- appending ---

    def append_all(self) -> None:
        """Append what may be appended; every partition gets an answer, each (topic, partition) is written once (B24)."""
        request = self._request
        refused = self._refusal()
        seen: set[tuple[str, Uuid, int]] = set()
        for topic in request.topic_data:
            writes: list[_Write] = []
            for data in topic.partition_data:
                key = (topic.name, topic.topic_id, data.index)
                if refused is not None:
                    write = _failed(data.index, refused)
                elif key in seen:
                    write = _failed(data.index, ErrorCode.INVALID_REQUEST)
                else:
                    seen.add(key)
                    write = self._append(topic.name, topic.topic_id, data.index, data.records)
                writes.append(write)
            self._topics.append((topic.name, topic.topic_id, writes))
            self._writes.extend(writes)

    def _refusal(self) -> ErrorCode | None:
        """An error of the whole request."""
        if self._request.acks not in (-1, 0, 1):
            return ErrorCode.INVALID_REQUIRED_ACKS
        return None

    def _append(self, name: str, topic_id: Uuid, index: int, records: memoryview | bytes | None) -> _Write:
        broker = self._broker
        if self._context.api_version >= _FIRST_BY_ID:
            hosted = broker.partitions.leading_by_id(topic_id, index, broker.image)
        else:
            hosted = broker.partitions.leading(name, index, broker.image)
        if isinstance(hosted, ErrorCode):
            return _failed(index, hosted)
        if hosted.topic in INTERNAL_TOPICS and self._context.client_id != _ADMIN_CLIENT_ID:
            return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        batch = _NO_RECORDS if records is None else memoryview(records)
        error = self._check_batch(batch)
        if error is not None:
            return _failed(index, error)
        leader = hosted.leader
        assert leader is not None, "leading returns leaders"
        if self._request.acks == -1 and not leader.has_enough_replicas:
            return _failed(index, ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            appended = leader.log.append_as_leader(batch, leader_epoch=leader.leader_epoch, now_ms=broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(appended, AppendRefused):
            return _refused(index, appended)
        if leader.advance() or not leader.is_alone:
            broker.purgatory.moved(hosted)
        write = _Write(
            PartitionProduceResponse(
                index=index,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.log_append_time,
                log_start_offset=appended.log_start_offset,
            )
        )
        write.hosted = hosted
        write.leader_epoch = leader.leader_epoch
        write.end_offset = appended.last_offset + 1
        return write

    def _check_batch(self, batch: memoryview) -> ErrorCode | None:
        """What depends on the request and not on the log: transactions, and zstd before it was known (KIP-110)."""
        if len(batch) <= _ATTRIBUTES_LOW_BYTE:
            return None
        attributes = batch[_ATTRIBUTES_LOW_BYTE]
        if attributes & 0x10:
            if self._request.transactional_id is None:
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ErrorCode.INVALID_TXN_STATE
        if attributes & 0x07 == _ZSTD and self._context.api_version < _FIRST_WITH_ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    # --- waiting (acks=all) ---

    def are_committed(self) -> bool:
        """Settle what is committed or failed; true when nothing is left to wait for."""
        done = True
        for write in self._writes:
            hosted = write.hosted
            if hosted is None:
                continue
            leader = hosted.leader
            if leader is None or leader.leader_epoch != write.leader_epoch:
                self._fail(write, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            error = leader.committed(write.end_offset)
            if error is None:
                done = False
            elif error is ErrorCode.NONE:
                write.hosted = None
            else:
                self._fail(write, error)
        return done

    def wait(self) -> Deferred:
        """Answer when every write is committed, or at `timeout_ms` with REQUEST_TIMED_OUT for those that are not."""
        deferred = Deferred(
            deadline_ms=self._context.now_ms + max(0, self._request.timeout_ms), on_timeout=self._timed_out
        )
        keys = [write.hosted for write in self._writes if write.hosted is not None]
        self._broker.purgatory.watch(
            deferred, keys, lambda: self.are_committed() and deferred.complete(Reply(self.response()))
        )
        return deferred

    def _timed_out(self) -> AnyReply:
        if not self.are_committed():
            for write in self._writes:
                if write.hosted is not None:
                    self._fail(write, ErrorCode.REQUEST_TIMED_OUT)
        return Reply(self.response())

    def _fail(self, write: _Write, error: ErrorCode) -> None:
        write.hosted = None
        write.answer = PartitionProduceResponse(index=write.answer.index, error_code=error, base_offset=-1)

    # --- answering ---

    def silent_result(self) -> HandlerResult:
        """acks=0 has no answer; an error closes the connection, so that the client looks for the leader again."""
        for write in self._writes:
            if write.answer.error_code:
                return CloseConnection(f"a produce with acks=0 failed: {ErrorCode(write.answer.error_code).name}")
        return NO_REPLY

    def response(self) -> ProduceResponse:
        """The answer, with the leader's address where the client came to the wrong broker."""
        nodes: dict[int, NodeEndpoint] = {}
        responses = []
        for name, topic_id, writes in self._topics:
            answers = tuple(self._with_hint(write.answer, name, topic_id, nodes) for write in writes)
            responses.append(TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=answers))
        return ProduceResponse(responses=tuple(responses), node_endpoints=tuple(nodes.values()))

    def _with_hint(
        self, answer: PartitionProduceResponse, name: str, topic_id: Uuid, nodes: dict[int, NodeEndpoint]
    ) -> PartitionProduceResponse:
        if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or self._context.api_version < _FIRST_WITH_HINTS:
            return answer
        broker = self._broker
        if self._context.api_version >= _FIRST_BY_ID:
            topic = broker.image.topics.by_id.get(topic_id)
            name = "" if topic is None else topic.name
        hint = leader_hint(broker, name, answer.index)
        node = node_hint(broker, hint.leader_id, self._context.listener)
        if node is not None:
            nodes[node.node_id] = NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        return PartitionProduceResponse(
            index=answer.index,
            error_code=answer.error_code,
            base_offset=-1,
            current_leader=LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch),
        )


def _failed(index: int, error: ErrorCode) -> _Write:
    return _Write(PartitionProduceResponse(index=index, error_code=error, base_offset=-1))


def _refused(index: int, refused: AppendRefused) -> _Write:
    return _Write(
        PartitionProduceResponse(
            index=index,
            error_code=refused.error,
            base_offset=-1,
            log_start_offset=refused.log_start_offset,
            record_errors=tuple(
                BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
                for at, message in refused.record_errors
            ),
            error_message=refused.message,
        )
    )
