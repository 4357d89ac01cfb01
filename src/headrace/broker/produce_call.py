"""One Produce request of any shape: what was appended, what is waited for, and what is answered.

A hot file for requests that wait (acks=all).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.leader_hints import leader_hint, node_hint
from headrace.broker.partitions import HostedPartition
from headrace.broker.refused_batches import NOT_HERE, ProducerPlace, place_of, remembered_after
from headrace.broker.walks import LEAST_WAITING_BYTES, MAX_WAITING_BYTES
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.log.ports import Appended, AppendRefused, CheckedBatch, Opening
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import (
    NO_REPLY,
    AnyReply,
    CloseConnection,
    Deferred,
    EncodedReply,
    HandlerResult,
    HotResult,
    InSteps,
    NoReply,
    Operation,
    Reply,
)
from headrace.wire.leader_hints import Endpoint
from headrace.wire.produce import (
    ParsedProduce,
    ProduceBatch,
    ProduceResult,
    encode_appended,
    encode_produce_response,
    produce_response_in_steps,
)

FIRST_WITH_ZSTD = 7
TRANSACTIONAL_BIT = 0x10
ATTRIBUTES_LOW_BYTE = 22
_FIRST_WITH_HINTS = 10
_ZSTD = 4
_CODEC_BITS = 0x07
_ADMIN_CLIENT_ID = "__admin_client"
_MAGIC = 16
_MAGIC_V2 = 2
_NO_RECORDS = memoryview(b"")
_MOST_INTERNAL_BYTES = 64 * 1024
"""Of a batch that a client may write to an internal topic: its coordinator must be able to load it in one turn."""
_AT_ONCE = 32
"""Partitions that one step appends to, or reads the state of."""
_MOST_SETTLED_AT_ONCE = 500
"""Of a request with more partitions than this the answer is made in steps."""
Offered = Appended | AppendRefused | Opening
"""What became of a batch that a log was given."""


class _Write:
    """One partition's share of a request: where it went, or why it did not. While it `is_open` that is not known."""

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
        self.is_open = False
        self.result, self.hosted = other.result, other.hosted
        self.leader_epoch, self.end_offset = other.leader_epoch, other.end_offset


class ProduceCall:
    """One Produce request of any shape: what was appended, what is waited for. It keeps nothing of the request's bytes while it waits."""

    __slots__ = (
        "_acks",
        "_broker",
        "_context",
        "_deferred",
        "_opening",
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
        self._opening = 0
        self._unsettled = 0
        self._deferred: Deferred | None = None

    def result(self) -> HotResult:
        """Append what may be appended; every partition gets an answer, each is written once (B24)."""
        return self.go_on([])

    def go_on(self, done: Sequence[tuple[HostedPartition, Offered]]) -> HotResult:
        """The same, when the first batches were offered to their logs already."""
        seen: set[tuple[object, int]] = set()
        for at, batch in enumerate(self.batches):
            key = (batch.topic, batch.partition)
            if at < len(done):
                seen.add(key)
                write = self._offered(batch, *done[at])
                self._remember(done[at][0], batch.records, write)
                self._writes.append(write)
            else:
                self._writes.append(self._taken(batch, seen))
        self.batches = ()
        if self._opening:
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

    def in_steps(self) -> Steps[HandlerResult]:
        """The same for very many partitions."""
        seen: set[tuple[object, int]] = set()
        for at, batch in enumerate(self.batches):
            if not at % _AT_ONCE:
                yield None
            self._writes.append(self._taken(batch, seen))
        self.batches = ()
        if self._opening:
            self._deferred = Deferred()
            return self._deferred
        return (yield from self._settled_in_steps())

    def _taken(self, batch: ProduceBatch, seen: set[tuple[object, int]]) -> _Write:
        """The batch is appended, or refused for what the request says of it."""
        if self._acks not in (-1, 0, 1):
            return _failed(batch, ErrorCode.INVALID_REQUIRED_ACKS)
        key = (batch.topic, batch.partition)
        if key in seen:
            return _failed(batch, ErrorCode.INVALID_REQUEST)
        seen.add(key)
        return self._append(batch)

    # --- appending ---

    def _append(self, batch: ProduceBatch) -> _Write:
        """Append it, unless one before it in its producer's order was refused and is about to come again."""
        hosted = self._hosted(batch)
        if hosted is None:
            write = self._try_append(batch)
            place = place_of(batch.records)
            if place is not None and write.result.error_code in NOT_HERE:
                self._broker.partitions.early.note(batch.topic, batch.partition, place, self._broker.now_ms())
            return write
        if hosted.refused is not None:
            error = hosted.refused.reason(batch.records, hosted.log, self._broker.now_ms())
            if error is not None:
                return _failed(batch, error)
        write = self._try_append(batch)
        self._remember(hosted, batch.records, write)
        return write

    def _hosted(self, batch: ProduceBatch) -> HostedPartition | None:
        partitions, topic = self._broker.partitions, batch.topic
        if isinstance(topic, Uuid):
            return partitions.by_id.get((topic, batch.partition))
        return partitions.by_name.get((topic, batch.partition))

    def _remember(self, hosted: HostedPartition, of: memoryview | ProducerPlace | None, write: _Write) -> None:
        """A batch that was refused for the moment comes again before what its producer sent behind it."""
        error = write.result.error_code
        if (error or hosted.refused is not None) and not write.is_open:
            place = of if isinstance(of, ProducerPlace) else place_of(of)
            hosted.refused = remembered_after(hosted.refused, place, error, self._broker.now_ms())

    def _try_append(self, batch: ProduceBatch) -> _Write:
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
            start = leader.log.log_start_offset
            return _failed(batch, ErrorCode.NOT_ENOUGH_REPLICAS, log_start_offset=start)
        broker = self._broker
        try:
            appended = leader.append(records, now_ms=broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return _failed(batch, ErrorCode.KAFKA_STORAGE_ERROR)
        return self._offered(batch, hosted, appended)

    def _offered(self, batch: ProduceBatch, hosted: HostedPartition, done: Offered) -> _Write:
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
        walks, epoch = self._broker.walks, hosted.leader_epoch
        size = max(len(batch.records), LEAST_WAITING_BYTES)
        if walks.waiting_bytes + size > MAX_WAITING_BYTES:
            return _failed(batch, ErrorCode.REQUEST_TIMED_OUT)
        asked, place = ProduceBatch(batch.topic, batch.partition, None), place_of(batch.records)
        write = _failed(batch, ErrorCode.NONE)
        write.is_open = True
        self._opening += 1
        walks.waiting_bytes += size

        def done(checked: CheckedBatch | AppendRefused) -> None:
            walks.waiting_bytes -= size
            self._opening -= 1
            write.take(self._append_checked(asked, hosted, epoch, checked))
            self._remember(hosted, place, write)
            if self._deferred is not None and not self._opening:
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
        if len(self._writes) > _MOST_SETTLED_AT_ONCE:
            deferred.complete(InSteps(self._settled_in_steps()))
            return
        if self._acks == 0:
            deferred.complete(self._silent_result())
            return
        unsettled = [write for write in self._writes if not self._settle(write)]
        if unsettled:
            self._watch(deferred, unsettled)
        else:
            deferred.complete(EncodedReply((self._response(),)))

    def _settled_in_steps(self) -> Steps[HandlerResult]:
        """Every batch was appended or refused: answer, or wait for the replicas."""
        if self._acks == 0:
            return self._silent_result()
        unsettled = []
        for at, write in enumerate(self._writes):
            if not at % _AT_ONCE:
                yield None
            if not self._settle(write):
                unsettled.append(write)
        if not unsettled:
            return (yield from self._response_in_steps())
        deferred = Deferred()
        self._watch(deferred, unsettled)
        return deferred

    def _find(self, batch: ProduceBatch) -> HostedPartition | ErrorCode:
        broker = self._broker
        if isinstance(batch.topic, Uuid):
            return broker.partitions.leading_by_id(batch.topic, batch.partition, broker.image)
        return broker.partitions.leading(batch.topic, batch.partition, broker.image)

    def _check_batch(self, records: memoryview) -> ErrorCode | None:
        """What depends on the request and not on the log: transactions, and zstd before it was known (KIP-110)."""
        if len(records) <= ATTRIBUTES_LOW_BYTE or records[_MAGIC] != _MAGIC_V2:
            return None
        attributes = records[ATTRIBUTES_LOW_BYTE]
        if attributes & TRANSACTIONAL_BIT:
            if self._transactional_id is None:
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ErrorCode.INVALID_TXN_STATE
        if attributes & _CODEC_BITS == _ZSTD and self._context.api_version < FIRST_WITH_ZSTD:
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
        deferred.operation = Operation.PRODUCE
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
            self._deferred.complete(self._reply())
        return True

    def _give_up(self) -> None:
        """Nobody waits for the writes that are not settled any more."""
        for write in self._writes:
            if write.give_up is not None:
                write.give_up()
                write.give_up = None

    def _timed_out(self) -> AnyReply:
        if len(self._writes) > _MOST_SETTLED_AT_ONCE:
            return InSteps(self._timed_out_in_steps())
        for write in self._writes:
            if not self._settle(write):
                self._expire(write)
        self._give_up()
        return EncodedReply((self._response(),))

    def _timed_out_in_steps(self) -> Steps[HandlerResult]:
        for at, write in enumerate(self._writes):
            if not at % _AT_ONCE:
                yield None
            if not self._settle(write):
                self._expire(write)
            if write.give_up is not None:
                write.give_up()
                write.give_up = None
        return (yield from self._response_in_steps())

    def _expire(self, write: _Write) -> None:
        self._broker.expired.produces += 1
        _fail(write, ErrorCode.REQUEST_TIMED_OUT)

    # --- answering ---

    def _silent_result(self) -> NoReply | CloseConnection:
        """acks=0 has no answer; an error closes the connection, so that the client looks for the leader again."""
        for write in self._writes:
            if write.result.error_code:
                return CloseConnection(f"a produce with acks=0 failed: {ErrorCode(write.result.error_code).name}")
        return NO_REPLY

    def _reply(self) -> AnyReply:
        """The answer when all writes are settled."""
        if len(self._writes) > _MOST_SETTLED_AT_ONCE:
            return InSteps(self._response_in_steps())
        return EncodedReply((self._response(),))

    def _response_in_steps(self) -> Steps[HandlerResult]:
        nodes: dict[int, Endpoint] = {}
        results = []
        for at, write in enumerate(self._writes):
            if not at % _AT_ONCE:
                yield None
            results.append(self._told(write.result, nodes))
        made = produce_response_in_steps(self._context.api_version, results, endpoints=list(nodes.values()))
        return Reply((yield from made))

    def _response(self) -> bytes:
        """The answer, with the leader's address where the client came to the wrong broker (KIP-951)."""
        if len(self._writes) == 1:
            topic, index, error_code, base_offset, append_time_ms, log_start_offset = self._writes[0].result[:6]
            if not error_code:
                appended = (topic, index, base_offset, append_time_ms, log_start_offset)
                return encode_appended(self._context.api_version, appended)
        nodes: dict[int, Endpoint] = {}
        results = [self._told(write.result, nodes) for write in self._writes]
        return encode_produce_response(self._context.api_version, results, endpoints=list(nodes.values()))

    def _told(self, result: ProduceResult, nodes: dict[int, Endpoint]) -> ProduceResult:
        """What the client is told of a batch: an error is counted, and one who came to the wrong broker hears of the right one."""
        if not result.error_code:
            return result
        self._broker.errors.add("Produce", result.error_code)
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
    is_packed = len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & _CODEC_BITS
    return bool(is_packed) or len(records) > _MOST_INTERNAL_BYTES


def _failed(batch: ProduceBatch, error: ErrorCode, *, log_start_offset: int = -1) -> _Write:
    return _Write(ProduceResult(batch.topic, batch.partition, error_code=error, log_start_offset=log_start_offset))


def _fail(write: _Write, error: ErrorCode) -> None:
    """What was appended is told all the same, as Kafka does."""
    write.hosted = None
    write.result = write.result._replace(error_code=error)


def _refused(batch: ProduceBatch, refused: AppendRefused) -> ProduceResult:
    return ProduceResult(
        batch.topic,
        batch.partition,
        error_code=refused.error,
        log_start_offset=refused.log_start_offset,
        error_message=refused.message,
        record_errors=refused.record_errors,
    )
