"""Where do a producer's batches go, and when is it told? (Produce)

A hot file: one batch for one partition that is led here is the case that `handle` is written for; everything else is a `_Call`.
"""

from __future__ import annotations

from collections.abc import Generator

from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.leader_hints import leader_hint, node_hint
from headrace.broker.partitions import HostedPartition
from headrace.broker.walks import MAX_WAITING_BYTES
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.log.ports import Appended, AppendRefused, CheckedBatch, Opening
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import NO_REPLY, AnyReply, CloseConnection, Deferred, EncodedReply, HotResult, NoReply
from headrace.wire.leader_hints import Endpoint
from headrace.wire.produce import (
    ParsedProduce,
    ProduceBatch,
    ProduceResult,
    encode_appended,
    encode_produce_response,
    parse_produce,
)

_FIRST_BY_ID = 13
_FIRST_WITH_HINTS = 10
_FIRST_WITH_ZSTD = 7
_ZSTD = 4
_CODEC_BITS = 0x07
_TRANSACTIONAL_BIT = 0x10
_ADMIN_CLIENT_ID = "__admin_client"
_MAGIC = 16
_MAGIC_V2 = 2
_ATTRIBUTES_LOW_BYTE = 22
_NO_RECORDS = memoryview(b"")
_MOST_INTERNAL_BYTES = 64 * 1024
"""Of a batch that a client may write to an internal topic: its coordinator must be able to load it in one turn."""


def handle(body: memoryview, context: RequestContext, broker: Broker) -> HotResult:
    """Append every partition's batch, then answer by `acks`."""
    version = context.api_version
    request = parse_produce(body, 0, version)
    transactional_id, acks, _, batches = request
    if len(batches) == 1 and transactional_id is None and acks in (1, -1) and version >= _FIRST_WITH_ZSTD:
        topic, index, records = batches[0]
        partitions = broker.partitions
        hosted = (partitions.by_id if version >= _FIRST_BY_ID else partitions.by_name).get((topic, index))  # type: ignore[arg-type]
        if hosted is not None and records is not None and len(records) > _ATTRIBUTES_LOW_BYTE:
            leader = hosted.leader
            if (
                leader is not None
                and leader.is_alone
                and not hosted.is_withheld
                and not records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT
                and hosted.topic not in INTERNAL_TOPICS
            ):
                try:
                    appended = leader.log.append_client(
                        records, leader_epoch=leader.leader_epoch, now_ms=broker.wall_ms()
                    )
                except StorageFault as fault:
                    broker.on_storage_fault(fault)
                    appended = AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
                if type(appended) is Appended:
                    first, _, append_time, log_start, _, _, waits_for_sync = appended
                    if waits_for_sync:
                        return _Call(request, context, broker).written(batches[0], hosted, appended)
                    if leader.advance():
                        broker.purgatory.moved(hosted)
                    return encode_appended(version, topic, index, (first, append_time, log_start))
                if isinstance(appended, AppendRefused):
                    return encode_produce_response(version, [_refused(batches[0], appended)])
                assert isinstance(appended, Generator), "there are three kinds"
                return _Call(request, context, broker).opened(batches[0], hosted, appended)
    return _Call(request, context, broker).result()


class _Write:
    """One partition's share of a request: where it went, or why it did not."""

    __slots__ = ("end_offset", "hosted", "is_open", "leader_epoch", "result")

    def __init__(self, result: ProduceResult) -> None:
        self.result = result
        self.hosted: HostedPartition | None = None
        self.leader_epoch = -1
        self.end_offset = -1
        self.is_open = False

    def take(self, other: _Write) -> None:
        """What became of it is known now."""
        self.result, self.hosted = other.result, other.hosted
        self.leader_epoch, self.end_offset = other.leader_epoch, other.end_offset
        self.is_open = False


class _Call:
    """One Produce request of any shape: what was appended, what is waited for."""

    __slots__ = ("_broker", "_context", "_deferred", "_request", "_writes")

    def __init__(self, request: ParsedProduce, context: RequestContext, broker: Broker) -> None:
        self._request = request
        self._context = context
        self._broker = broker
        self._writes: list[_Write] = []
        self._deferred: Deferred | None = None

    def result(self) -> HotResult:
        """Append what may be appended; every partition gets an answer, each is written once (B24)."""
        seen: set[tuple[object, int]] = set()
        for batch in self._request.batches:
            key = (batch.topic, batch.partition)
            if self._request.acks not in (-1, 0, 1):
                write = _failed(batch, ErrorCode.INVALID_REQUIRED_ACKS)
            elif key in seen:
                write = _failed(batch, ErrorCode.INVALID_REQUEST)
            else:
                seen.add(key)
                write = self._append(batch)
            self._writes.append(write)
        return self._answer_or_wait()

    def written(self, batch: ProduceBatch, hosted: HostedPartition, appended: Appended) -> HotResult:
        """The one batch of the request was appended, and waits for something."""
        self._writes.append(self._note(batch, hosted, appended))
        return self._answer_or_wait()

    def opened(self, batch: ProduceBatch, hosted: HostedPartition, opening: Opening) -> HotResult:
        """The one batch of the request must be opened before it may be appended."""
        self._writes.append(self._open(batch, hosted, opening))
        return self._answer_or_wait()

    def _answer_or_wait(self) -> HotResult:
        if any(write.is_open for write in self._writes):
            self._deferred = Deferred(holds_back=True)
            return self._deferred
        if self._request.acks == 0:
            return self._silent_result()
        if not self._are_settled():
            return self._wait()
        return self._response()

    # --- appending ---

    def _append(self, batch: ProduceBatch) -> _Write:
        hosted = self._find(batch)
        if isinstance(hosted, ErrorCode):
            return _failed(batch, hosted)
        records = _NO_RECORDS if batch.records is None else batch.records
        if hosted.topic in INTERNAL_TOPICS:
            if self._context.client_id != _ADMIN_CLIENT_ID:
                return _failed(batch, ErrorCode.INVALID_TOPIC_EXCEPTION)
            if _is_much(records):
                return _failed(batch, ErrorCode.MESSAGE_TOO_LARGE)
        error = self._check_batch(records)
        if error is not None:
            return _failed(batch, error)
        leader = hosted.leader
        assert leader is not None, "leading returns leaders"
        if self._request.acks == -1 and not leader.has_enough_replicas:
            return _failed(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
        broker = self._broker
        try:
            appended = leader.log.append_client(records, leader_epoch=leader.leader_epoch, now_ms=broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return _failed(batch, ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(appended, Generator):
            return self._open(batch, hosted, appended)
        return (
            _Write(_refused(batch, appended))
            if isinstance(appended, AppendRefused)
            else self._note(batch, hosted, appended)
        )

    # --- opening ---

    def _open(self, batch: ProduceBatch, hosted: HostedPartition, opening: Opening) -> _Write:
        """Look into the batch, here if that is quick; else the write is open until that is over."""
        assert batch.records is not None, "there are bytes to open"
        leader = hosted.leader
        assert leader is not None, "only a leader appends"
        walks, size, epoch = self._broker.walks, len(batch.records), leader.leader_epoch
        if walks.waiting_bytes + size > MAX_WAITING_BYTES:
            return _failed(batch, ErrorCode.REQUEST_TIMED_OUT)
        place = ProduceBatch(batch.topic, batch.partition, None)
        write = _failed(batch, ErrorCode.NONE)
        write.is_open = True
        walks.waiting_bytes += size

        def done(checked: CheckedBatch | AppendRefused) -> None:
            walks.waiting_bytes -= size
            write.take(self._append_checked(place, hosted, epoch, checked))
            if self._deferred is not None and not any(each.is_open for each in self._writes):
                self._finish(self._deferred)

        walks.follow(opening, done)
        return write

    def _append_checked(
        self, batch: ProduceBatch, hosted: HostedPartition, leader_epoch: int, checked: CheckedBatch | AppendRefused
    ) -> _Write:
        """What was looked into is appended, if this broker leads the partition still."""
        leader = hosted.leader
        if leader is None or leader.leader_epoch != leader_epoch or hosted.is_withheld:
            return _failed(batch, self._gone(hosted))
        broker = self._broker
        try:
            appended = leader.log.append_checked(checked, leader_epoch=leader_epoch, now_ms=broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return _failed(batch, ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(appended, AppendRefused):
            return _Write(_refused(batch, appended))
        return self._note(batch, hosted, appended)

    def _finish(self, deferred: Deferred) -> None:
        """The last batch was looked into: answer, or wait on for the replicas."""
        if self._request.acks == 0:
            result = self._silent_result()
            assert isinstance(result, NoReply | CloseConnection), "nothing is said"
            deferred.complete(result)
        elif self._are_settled():
            deferred.complete(EncodedReply((self._response(),)))
        else:
            self._watch(deferred)

    def _note(self, batch: ProduceBatch, hosted: HostedPartition, appended: Appended) -> _Write:
        """A batch was written: who waits for that is woken, and the request may have to wait itself."""
        leader = hosted.leader
        assert leader is not None, "only a leader appends"
        write = _Write(
            ProduceResult(
                batch.topic,
                batch.partition,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.log_append_time,
                log_start_offset=appended.log_start_offset,
            )
        )
        if self._request.acks == -1 or appended.waits_for_sync:
            write.hosted = hosted
            write.leader_epoch = leader.leader_epoch
            write.end_offset = appended.last_offset + 1
        self._broker.appended(hosted)
        return write

    def _find(self, batch: ProduceBatch) -> HostedPartition | ErrorCode:
        broker = self._broker
        if isinstance(batch.topic, Uuid):
            return broker.partitions.leading_by_id(batch.topic, batch.partition, broker.image)
        return broker.partitions.leading(batch.topic, batch.partition, broker.image)

    def _check_batch(self, records: memoryview) -> ErrorCode | None:
        """What depends on the request and not on the log: transactions, and zstd before it was known (KIP-110)."""
        if len(records) <= _ATTRIBUTES_LOW_BYTE or records[_MAGIC] != _MAGIC_V2:
            return None
        attributes = records[_ATTRIBUTES_LOW_BYTE]
        if attributes & _TRANSACTIONAL_BIT:
            if self._request.transactional_id is None:
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ErrorCode.INVALID_TXN_STATE
        if attributes & _CODEC_BITS == _ZSTD and self._context.api_version < _FIRST_WITH_ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    # --- waiting (acks=all, or for a sync) ---

    def _are_settled(self) -> bool:
        """Settle what may be acknowledged and what failed; true when nothing is left to wait for."""
        done = True
        for write in self._writes:
            hosted = write.hosted
            if hosted is None:
                continue
            leader = hosted.leader
            if leader is None or leader.leader_epoch != write.leader_epoch:
                _fail(write, self._gone(hosted))
                continue
            if self._request.acks == -1:
                error = leader.committed(write.end_offset)
            else:
                error = ErrorCode.NONE if leader.log.acknowledged_end_offset >= write.end_offset else None
            if error is None:
                done = False
            elif error is ErrorCode.NONE:
                write.hosted = None
            else:
                _fail(write, error)
        return done

    def _gone(self, hosted: HostedPartition) -> ErrorCode:
        """Why the partition is not led here any more."""
        is_lost = hosted.log is None and self._broker.partitions.get(hosted.topic, hosted.partition) is hosted
        return ErrorCode.KAFKA_STORAGE_ERROR if is_lost else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _wait(self) -> Deferred:
        """Answer when every write is settled; with acks=all at the request's timeout, with REQUEST_TIMED_OUT for those that are not."""
        deferred = Deferred()
        self._watch(deferred)
        return deferred

    def _watch(self, deferred: Deferred) -> None:
        broker = self._broker
        if self._request.acks == -1:
            deferred.deadline_ms = broker.now_ms() + max(0, self._request.timeout_ms)
        deferred.on_timeout = self._timed_out
        keys = [write.hosted for write in self._writes if write.hosted is not None]
        broker.purgatory.watch(
            deferred, keys, lambda: self._are_settled() and deferred.complete(EncodedReply((self._response(),)))
        )

    def _timed_out(self) -> AnyReply:
        if not self._are_settled():
            for write in self._writes:
                if write.hosted is not None:
                    _fail(write, ErrorCode.REQUEST_TIMED_OUT)
        return EncodedReply((self._response(),))

    # --- answering ---

    def _silent_result(self) -> HotResult:
        """acks=0 has no answer; an error closes the connection, so that the client looks for the leader again."""
        for write in self._writes:
            if write.result.error_code:
                return CloseConnection(f"a produce with acks=0 failed: {ErrorCode(write.result.error_code).name}")
        return NO_REPLY

    def _response(self) -> bytes:
        """The answer, with the leader's address where the client came to the wrong broker (KIP-951)."""
        nodes: dict[int, Endpoint] = {}
        results = [self._with_hint(write.result, nodes) for write in self._writes]
        return encode_produce_response(self._context.api_version, results, endpoints=list(nodes.values()))

    def _with_hint(self, result: ProduceResult, nodes: dict[int, Endpoint]) -> ProduceResult:
        if result.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or self._context.api_version < _FIRST_WITH_HINTS:
            return result
        broker = self._broker
        name = result.topic
        if isinstance(name, Uuid):
            topic = broker.image.topics.by_id.get(name)
            name = "" if topic is None else topic.name
        hint = leader_hint(broker, name, result.partition)
        node = node_hint(broker, hint.leader_id, self._context.listener)
        if node is not None:
            nodes[node.node_id] = node
        return result._replace(current_leader=hint)


def _is_much(records: memoryview) -> bool:
    """True for a batch that has many records, or may open to many."""
    is_packed = len(records) > _ATTRIBUTES_LOW_BYTE and records[_ATTRIBUTES_LOW_BYTE] & _CODEC_BITS
    return bool(is_packed) or len(records) > _MOST_INTERNAL_BYTES


def _failed(batch: ProduceBatch, error: ErrorCode) -> _Write:
    return _Write(ProduceResult(batch.topic, batch.partition, error_code=error))


def _fail(write: _Write, error: ErrorCode) -> None:
    write.hosted = None
    write.result = ProduceResult(write.result.topic, write.result.partition, error_code=error)


def _refused(batch: ProduceBatch, refused: AppendRefused) -> ProduceResult:
    return ProduceResult(
        batch.topic,
        batch.partition,
        error_code=refused.error,
        log_start_offset=refused.log_start_offset,
        error_message=refused.message,
        record_errors=refused.record_errors,
    )
