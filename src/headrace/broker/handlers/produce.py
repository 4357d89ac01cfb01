"""Where do a producer's batches go, and when is it told? (Produce)

A hot file: batches for partitions that are led here, where nobody need be waited for, are the case that `handle` is written for; everything else
is a `_Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.leader_hints import leader_hint, node_hint
from headrace.broker.partitions import HostedPartition
from headrace.broker.walks import MAX_WAITING_BYTES
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.log.ports import Appended, AppendRefused, CheckedBatch, Opening
from headrace.replication.leader import PartitionLeader
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import NO_REPLY, AnyReply, CloseConnection, Deferred, EncodedReply, HotResult, NoReply
from headrace.wire.leader_hints import Endpoint
from headrace.wire.produce import (
    AppendedBatch,
    ParsedProduce,
    ProduceBatch,
    ProduceResult,
    encode_all_appended,
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
_Done = Appended | AppendRefused | Opening
"""What became of a batch that a log was given."""


def handle(body: memoryview, context: RequestContext, broker: Broker) -> HotResult:
    """Append every partition's batch, then answer by `acks`."""
    version = context.api_version
    request = parse_produce(body, 0, version)
    transactional_id, acks, _, batches = request
    if transactional_id is not None or acks not in (1, -1) or version < _FIRST_WITH_ZSTD:
        return _Call(request, context, broker).result()
    if len(batches) == 1:
        topic, index, records = batches[0]
        partitions = broker.partitions
        hosted = (partitions.by_id if version >= _FIRST_BY_ID else partitions.by_name).get((topic, index))  # type: ignore[arg-type]
        leader = None if hosted is None else hosted.leader
        if (
            leader is not None
            and records is not None
            and (leader.is_alone or acks == 1)
            and not hosted.is_withheld  # type: ignore[union-attr] # a leader has its partition
            and len(records) > _ATTRIBUTES_LOW_BYTE
            and not records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT
            and hosted.topic not in INTERNAL_TOPICS  # type: ignore[union-attr]
        ):
            try:
                appended = leader.append(records, now_ms=broker.wall_ms())
            except StorageFault as fault:
                broker.on_storage_fault(fault)
                appended = AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
            if type(appended) is Appended and not appended[6]:
                return encode_appended(version, (topic, index, appended[0], appended[2], appended[3]))
            return _Call(request, context, broker).go_on([(hosted, appended)])  # type: ignore[list-item] # a leader has its partition
    elif len({batch[:2] for batch in batches}) == len(batches):
        return _append_many(request, context, broker)
    return _Call(request, context, broker).result()


def _usual_leader(hosted: HostedPartition, records: memoryview | None, acks: int) -> PartitionLeader | None:
    """The leader, when nothing but the log itself can refuse the batch and nobody need be waited for."""
    leader = hosted.leader
    if (
        leader is not None
        and records is not None
        and (leader.is_alone or acks == 1)
        and not hosted.is_withheld
        and len(records) > _ATTRIBUTES_LOW_BYTE
        and not records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT
        and hosted.topic not in INTERNAL_TOPICS
    ):
        return leader
    return None


def _append_many(request: ParsedProduce, context: RequestContext, broker: Broker) -> HotResult:
    """A request of several partitions, as long as each is the usual case; from the first that is not, a `_Call` goes on."""
    version, acks, batches = context.api_version, request.acks, request.batches
    partitions = broker.partitions
    places = partitions.by_id if version >= _FIRST_BY_ID else partitions.by_name
    done: list[tuple[HostedPartition, _Done]] = []
    placed: list[AppendedBatch] = []
    now_ms = broker.wall_ms()
    for topic, index, records in batches:
        hosted = places.get((topic, index))  # type: ignore[arg-type]
        leader = None if hosted is None else _usual_leader(hosted, records, acks)
        if leader is None:
            break
        try:
            appended = leader.append(records, now_ms=now_ms)  # type: ignore[arg-type]
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            appended = AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
        done.append((hosted, appended))  # type: ignore[arg-type]
        if type(appended) is not Appended or appended[6]:
            break
        placed.append((topic, index, appended[0], appended[2], appended[3]))
    if len(placed) == len(batches):
        return encode_all_appended(version, placed)
    return _Call(request, context, broker).go_on(done)


class _Write:
    """One partition's share of a request: where it went, or why it did not."""

    __slots__ = ("end_offset", "give_up", "hosted", "is_open", "leader_epoch", "result")

    def __init__(self, result: ProduceResult) -> None:
        self.result = result
        self.hosted: HostedPartition | None = None
        self.leader_epoch = -1
        self.end_offset = -1
        self.is_open = False
        self.give_up: Callable[[], None] | None = None

    def take(self, other: _Write) -> None:
        """What became of it is known now."""
        self.result, self.hosted = other.result, other.hosted
        self.leader_epoch, self.end_offset = other.leader_epoch, other.end_offset
        self.is_open = False


class _Call:
    """One Produce request of any shape: what was appended, what is waited for. It keeps nothing of the request's bytes while it waits."""

    __slots__ = (
        "_acks",
        "_broker",
        "_context",
        "_deferred",
        "_timeout_ms",
        "_transactional_id",
        "_unsettled",
        "_writes",
        "batches",
    )

    def __init__(self, request: ParsedProduce, context: RequestContext, broker: Broker) -> None:
        self._transactional_id, self._acks, self._timeout_ms, self.batches = request
        self._context = context
        self._broker = broker
        self._writes: list[_Write] = []
        self._unsettled = 0
        self._deferred: Deferred | None = None

    def result(self) -> HotResult:
        """Append what may be appended; every partition gets an answer, each is written once (B24)."""
        return self.go_on([])

    def go_on(self, done: Sequence[tuple[HostedPartition, _Done]]) -> HotResult:
        """The same, when the first batches were offered to their logs already."""
        seen: set[tuple[object, int]] = set()
        for at, batch in enumerate(self.batches):
            key = (batch.topic, batch.partition)
            if self._acks not in (-1, 0, 1):
                write = _failed(batch, ErrorCode.INVALID_REQUIRED_ACKS)
            elif key in seen:
                write = _failed(batch, ErrorCode.INVALID_REQUEST)
            else:
                seen.add(key)
                write = self._offered(batch, *done[at]) if at < len(done) else self._append(batch)
            self._writes.append(write)
        self.batches = ()
        if any(write.is_open for write in self._writes):
            self._deferred = Deferred(holds_back=True)
            return self._deferred
        if self._acks == 0:
            return self._silent_result()
        unsettled = [write for write in self._writes if not self._settle(write)]
        if not unsettled:
            return self._response()
        deferred = Deferred()
        self._watch(deferred, unsettled)
        return deferred

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
        if self._acks == -1 and not leader.has_enough_replicas:
            return _failed(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
        broker = self._broker
        try:
            appended = leader.append(records, now_ms=broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return _failed(batch, ErrorCode.KAFKA_STORAGE_ERROR)
        return self._offered(batch, hosted, appended)

    def _offered(self, batch: ProduceBatch, hosted: HostedPartition, done: _Done) -> _Write:
        """What became of a batch that the log was given; the request may have to wait for it."""
        if isinstance(done, Generator):
            return self._open(batch, hosted, done)
        if isinstance(done, AppendRefused):
            return _Write(_refused(batch, done))
        appended = done
        write = _Write(
            ProduceResult(
                batch.topic,
                batch.partition,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.log_append_time,
                log_start_offset=appended.log_start_offset,
            )
        )
        if self._acks == -1 or appended.waits_for_sync:
            write.hosted = hosted
            write.leader_epoch = hosted.leader_epoch
            write.end_offset = appended.last_offset + 1
        return write

    # --- opening ---

    def _open(self, batch: ProduceBatch, hosted: HostedPartition, opening: Opening) -> _Write:
        """Look into the batch, here if that is quick; else the write is open until that is over."""
        assert batch.records is not None, "there are bytes to open"
        walks, size, epoch = self._broker.walks, len(batch.records), hosted.leader_epoch
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
            appended = leader.append_checked(checked, now_ms=broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return _failed(batch, ErrorCode.KAFKA_STORAGE_ERROR)
        return self._offered(batch, hosted, appended)

    def _finish(self, deferred: Deferred) -> None:
        """The last batch was looked into: answer, or wait on for the replicas."""
        if deferred.is_done:
            return
        if self._acks == 0:
            result = self._silent_result()
            assert isinstance(result, NoReply | CloseConnection), "nothing is said"
            deferred.complete(result)
            return
        unsettled = [write for write in self._writes if not self._settle(write)]
        if unsettled:
            self._watch(deferred, unsettled)
        else:
            deferred.complete(EncodedReply((self._response(),)))

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
            if self._transactional_id is None:
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ErrorCode.INVALID_TXN_STATE
        if attributes & _CODEC_BITS == _ZSTD and self._context.api_version < _FIRST_WITH_ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    # --- waiting (acks=all, or for a sync) ---

    def _settle(self, write: _Write) -> bool:
        """Whether the write may be acknowledged, or failed: nothing is left to wait for."""
        hosted = write.hosted
        if hosted is None:
            return True
        leader = hosted.leader
        if leader is None or leader.leader_epoch != write.leader_epoch:
            _fail(write, self._gone(hosted))
            return True
        if self._acks == -1:
            error = leader.committed(write.end_offset)
        else:
            error = ErrorCode.NONE if leader.log.acknowledged_end_offset >= write.end_offset else None
        if error is None:
            return False
        if error is ErrorCode.NONE:
            write.hosted = None
        else:
            _fail(write, error)
        return True

    def _gone(self, hosted: HostedPartition) -> ErrorCode:
        """Why the partition is not led here any more."""
        is_lost = hosted.log is None and self._broker.partitions.get(hosted.topic, hosted.partition) is hosted
        return ErrorCode.KAFKA_STORAGE_ERROR if is_lost else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _watch(self, deferred: Deferred, unsettled: list[_Write]) -> None:
        """Answer when every write is settled; with acks=all at the request's timeout, with REQUEST_TIMED_OUT for those that are not."""
        broker = self._broker
        if self._acks == -1:
            deferred.deadline_ms = broker.now_ms() + max(0, self._timeout_ms)
        deferred.on_timeout = self._timed_out
        deferred.on_abandoned = self._give_up
        self._deferred = deferred
        self._unsettled = len(unsettled)
        for write in unsettled:
            assert write.hosted is not None, "what has no partition is settled"
            waiters = write.hosted.waiters
            until = waiters.until_committed if self._acks == -1 else waiters.until_synced
            write.give_up = until(write.end_offset, partial(self._look, write))
        broker.purgatory.hold(deferred)

    def _look(self, write: _Write) -> bool:
        """The write's offset was reached, or its partition changed; whether it waits no more."""
        if not self._settle(write):
            return False
        write.give_up = None
        self._unsettled -= 1
        if not self._unsettled and self._deferred is not None:
            self._deferred.complete(EncodedReply((self._response(),)))
        return True

    def _give_up(self) -> None:
        """Nobody waits for the writes that are not settled any more."""
        for write in self._writes:
            if write.give_up is not None:
                write.give_up()
                write.give_up = None

    def _timed_out(self) -> AnyReply:
        for write in self._writes:
            if not self._settle(write):
                _fail(write, ErrorCode.REQUEST_TIMED_OUT)
        self._give_up()
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
