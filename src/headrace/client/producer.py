"""The order in which batches go out, which of them may fly at once, and what becomes of one that failed.

A *lane* holds the batches of one partition. With idempotence a lane's batches carry its producer id, epoch and rising sequences (KIP-98):
after a failure that may pass the lane waits until its other batches in flight are back, then sends all of them again in their order, and the
broker drops what it has already. The first batch under a producer id flies alone: a broker that knows nothing of a producer takes any sequence
as its first, and would take the second batch where the first one came too early for a new topic. A batch that is refused for good ends the lane's producer id; the rest goes on under a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from headrace.client.cluster_view import NodeView
from headrace.client.retry import Attempts, backoff_ms, error_of
from headrace.client.routing import ask_until, refresh
from headrace.client.session import Session
from headrace.client.talk import Address, Call, Conversation
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.records.crc import crc32c
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MAX_FLYING_BATCHES = 5
"""Batches of one producer id that a broker remembers a partition."""
MAX_REQUEST_BYTES = 1 << 20
MAX_QUEUED_BYTES = 32 << 20
"""Kafka's `buffer.memory`: with more than this waiting, a producer's caller waits too."""
LAST_NAMED_VERSION = 12
_IDENTITY = Struct(">qhi")
_IDENTITY_POSITION = 43
_COUNT = Struct(">i")
_COUNT_POSITION = 57
_CRC = Struct(">I")
_SEQUENCE_SPAN = 1 << 31
_STARTS_ANEW = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


@dataclass(slots=True, eq=False)
class Delivery:
    """What became of one batch. `base_offset` is -1 until it is known, and for good with acks 0."""

    where: TopicPartition
    is_done: bool = False
    base_offset: int = -1
    log_append_time_ms: int = -1
    error: PeerError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """The id and epoch a broker gave to a producer."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True, eq=False)
class _Queued:
    """One batch on its way, and what it was stamped with."""

    batch: bytearray | bytes
    record_count: int
    delivery: Delivery
    deadline_ms: int
    sequence: int = -1
    identity: ProducerIdentity | None = None


class _Lane:
    """The batches of one partition: waiting, flying, and failed ones that will go again."""

    __slots__ = ("attempt", "failed", "flying", "identity", "is_known", "next_sequence", "not_before_ms", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Queued] = deque()
        self.flying: list[_Queued] = []
        self.failed: list[_Queued] = []
        self.identity: ProducerIdentity | None = None
        self.is_known = False
        self.next_sequence = 0
        self.not_before_ms = 0
        self.attempt = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendProduce:
    """Send this to the leader; then tell the outcome with `answered` or `lost`. With acks 0 no answer comes: call `answered(send, None, 0)`."""

    leader: int
    address: Address
    request: Call
    batches: dict[TopicPartition, _Queued]


class ProduceMachine:
    """Decides what a producer sends next; driven by `BlockingProducer` and by the asyncio face.

    A lane is OPEN (sends), REWINDING (something failed; waits for the rest in flight, then its backoff) and OPEN again.
    """

    def __init__(
        self,
        session: Session,
        *,
        acks: int,
        is_idempotent: bool,
        timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
    ) -> None:
        self._session = session
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._timeout_ms = timeout_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._identity: ProducerIdentity | None = None
        self._open: dict[TopicPartition, None] = {}
        self._queued_bytes = 0
        self.first_error: PeerError | None = None

    @property
    def has_work(self) -> bool:
        """True while a batch waits, flies or will be sent again."""
        return any(lane.waiting or lane.flying or lane.failed for lane in self._lanes.values())

    @property
    def queued_bytes(self) -> int:
        """Bytes of the batches that wait to be sent; counted as they come and go, because it is asked with every one."""
        return self._queued_bytes

    @property
    def needs_identity(self) -> bool:
        """True if a producer id must be asked for and given to `identified` before anything can be sent."""
        return self._is_idempotent and self._identity is None

    def identified(self, identity: ProducerIdentity) -> None:
        """The cluster gave this producer its id."""
        self._identity = identity

    def add(self, where: TopicPartition, batch: bytes | bytearray) -> Delivery:
        """Queue one batch (format v2) for a partition; with idempotence its header will be changed in place (or in a copy of `bytes`)."""
        assert len(batch) >= 61, "a record batch has a header of 61 bytes"
        delivery = Delivery(where)
        (count,) = _COUNT.unpack_from(batch, _COUNT_POSITION)
        lane = self._lanes.setdefault(where, _Lane())
        lane.waiting.append(_Queued(batch, count, delivery, self._session.now_ms + self._delivery_timeout_ms))
        self._queued_bytes += len(batch)
        self._open[where] = None
        return delivery

    def _next(self, lane: _Lane) -> _Queued:
        """Take the first batch that waits out of its lane."""
        queued = lane.waiting.popleft()
        self._queued_bytes -= len(queued.batch)
        return queued

    def has_queue(self, where: TopicPartition) -> bool:
        """True while a batch of the partition waits to be sent."""
        return bool(self._lanes[where].waiting)

    def refused(self, topic: str, error: PeerError) -> None:
        """The cluster does not give metadata of a topic: its batches fail, at once or when the error lasts until their delivery time."""
        for where, lane in self._lanes.items():
            if where.topic == topic and lane.waiting and not lane.flying:
                if error.code.is_retriable and lane.waiting[0].deadline_ms > self._session.now_ms:
                    lane.not_before_ms = self._session.now_ms + self._session.settings.retry_backoff_ms
                    continue
                while lane.waiting:
                    self._give_up(self._next(lane), error)
                self._open.pop(where, None)

    def topics_without_leader(self) -> list[str]:
        """Topics whose metadata must be fetched before their batches can go."""
        cluster = self._session.cluster
        return sorted({
            where.topic
            for where in self._open
            if self._lanes[where].not_before_ms <= self._session.now_ms
            and (where.topic not in cluster.topics or cluster.leaders.get(where, (-1, -1))[0] not in cluster.nodes)
        })  # fmt: skip

    def next_send_ms(self) -> int | None:
        """When the first lane that waits for its backoff may send; None if none waits."""
        return min(
            (lane.not_before_ms for lane in self._lanes.values() if lane.waiting and not lane.flying), default=None
        )

    def sends(self, *, is_free: Callable[[int], bool]) -> list[SendProduce]:
        """The requests that may go now, one a leader for which `is_free(leader)` is true."""
        if self.needs_identity:
            return []
        cluster, now_ms = self._session.cluster, self._session.now_ms
        picked: dict[int, dict[TopicPartition, _Queued]] = {}
        sizes: dict[int, int] = {}
        for where in list(self._open):
            lane = self._lanes[where]
            leader = cluster.leaders.get(where, (-1, -1))[0]
            if (
                not self._may_send(lane, now_ms)
                or leader not in cluster.nodes
                or where.topic not in cluster.topics
                or not is_free(leader)
            ):
                continue
            size = len(lane.waiting[0].batch)
            if leader in sizes and sizes[leader] + size > MAX_REQUEST_BYTES:
                continue
            picked.setdefault(leader, {})[where] = self._take_off(lane)
            sizes[leader] = sizes.get(leader, 0) + size
            if not lane.waiting:
                del self._open[where]
            else:
                self._open[where] = self._open.pop(where)
        return [
            SendProduce(
                leader=leader, address=cluster.nodes[leader].address, request=self._request(batches), batches=batches
            )
            for leader, batches in picked.items()
        ]

    def _may_send(self, lane: _Lane, now_ms: int) -> bool:
        return (
            bool(lane.waiting)
            and not lane.failed
            and lane.not_before_ms <= now_ms
            and len(lane.flying) < (MAX_FLYING_BATCHES if lane.is_known or not self._is_idempotent else 1)
        )

    def _take_off(self, lane: _Lane) -> _Queued:
        queued = self._next(lane)
        lane.flying.append(queued)
        if self._is_idempotent and queued.identity is None:
            if lane.identity is None:
                lane.identity, lane.is_known, lane.next_sequence = self._identity, False, 0
            queued.identity, queued.sequence = lane.identity, lane.next_sequence
            lane.next_sequence = (lane.next_sequence + queued.record_count) % _SEQUENCE_SPAN
            queued.batch = stamp(queued.batch, lane.identity, queued.sequence)
        return queued

    def _request(self, batches: dict[TopicPartition, _Queued]) -> Call:
        topics: dict[str, list[PartitionProduceData]] = {}
        for where, queued in batches.items():
            topics.setdefault(where.topic, []).append(
                PartitionProduceData(index=where.partition, records=memoryview(queued.batch))
            )
        views = {name: self._session.cluster.topics[name] for name in topics}

        def build(version: int) -> ProduceRequest:
            is_named = version <= LAST_NAMED_VERSION
            return ProduceRequest(
                acks=self._acks,
                timeout_ms=self._timeout_ms,
                topic_data=tuple(
                    TopicProduceData(name=name, partition_data=tuple(parts))
                    if is_named
                    else TopicProduceData(topic_id=views[name].topic_id, partition_data=tuple(parts))
                    for name, parts in topics.items()
                ),
            )

        has_ids = all(any(views[name].topic_id) for name in topics)
        return bounded_by(build, LAST_NAMED_VERSION if not has_ids else 32767)

    def answered(self, send: SendProduce, response: Any, version: int) -> None:
        """The leader answered (or, with acks 0 and `response` None, the request is written)."""
        if response is None:
            for where, queued in send.batches.items():
                self._landed(where, queued, -1, -1)
            return
        for node in response.node_endpoints:
            self._session.cluster.learn_node(
                NodeView(node_id=node.node_id, address=Address(host=node.host, port=node.port), rack=node.rack)
            )
        names = self._session.cluster.names
        left = dict(send.batches)
        for topic in response.responses:
            name = topic.name if version <= LAST_NAMED_VERSION else names.get(topic.topic_id, "")
            for part in topic.partition_responses:
                where = TopicPartition(name, part.index)
                if where in left:
                    self._answered_one(where, left.pop(where), part)
        for where, queued in left.items():
            self._failed(where, queued, PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves out a partition"))

    def _answered_one(self, where: TopicPartition, queued: _Queued, part: Any) -> None:
        error = error_of(part.error_code, part.error_message)
        if error is None or error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._landed(where, queued, part.base_offset, part.log_append_time_ms)
            return
        cluster = self._session.cluster
        if error.code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ):
            cluster.forget_leader(where)
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                cluster.topics.pop(where.topic, None)
        cluster.learn_leader(where, leader=part.current_leader.leader_id, leader_epoch=part.current_leader.leader_epoch)
        self._failed(where, queued, error)

    def lost(self, send: SendProduce, reason: str) -> None:
        """No answer will come for this request; it may or may not have been executed."""
        self._session.cluster.failed(send.address)
        for where, queued in send.batches.items():
            self._session.cluster.forget_leader(where)
            self._failed(where, queued, PeerError(ErrorCode.NETWORK_EXCEPTION, reason))

    def _landed(self, where: TopicPartition, queued: _Queued, base_offset: int, log_append_time_ms: int) -> None:
        lane = self._lanes[where]
        lane.flying.remove(queued)
        lane.attempt = 0
        lane.is_known = lane.is_known or queued.identity is lane.identity
        delivery = queued.delivery
        delivery.is_done, delivery.base_offset, delivery.log_append_time_ms = True, base_offset, log_append_time_ms
        self._settle(where, lane)

    def _failed(self, where: TopicPartition, queued: _Queued, error: PeerError) -> None:
        lane = self._lanes[where]
        lane.flying.remove(queued)
        behind = bool(lane.failed) or queued.identity is not lane.identity
        is_forgotten = self._is_idempotent and error.code is ErrorCode.UNKNOWN_PRODUCER_ID
        may_pass = error.code.is_retriable or is_forgotten or (behind and error.code in _STARTS_ANEW)
        if may_pass and self._session.now_ms < queued.deadline_ms:
            lane.failed.append(queued)
            if is_forgotten and not behind:
                lane.identity = None
        else:
            self._give_up(queued, error)
            if self._is_idempotent:
                lane.identity = None
        self._settle(where, lane)

    def _give_up(self, queued: _Queued, error: PeerError) -> None:
        """The batch will not be sent again; its error is kept for `flush`, if it is the first."""
        queued.delivery.is_done, queued.delivery.error = True, error
        self.first_error = self.first_error or error

    def _settle(self, where: TopicPartition, lane: _Lane) -> None:
        """When nothing of a lane flies any more, put what failed back in front, in order."""
        if lane.flying:
            if lane.waiting and not lane.failed:
                self._open[where] = None
            return
        if self._is_idempotent and lane.identity is None:
            self._identity = None
            for queued in [*lane.failed, *lane.waiting]:
                queued.identity = None
        if lane.failed:
            settings = self._session.settings
            lane.not_before_ms = self._session.now_ms + backoff_ms(
                lane.attempt,
                first_ms=settings.retry_backoff_ms,
                most_ms=settings.retry_backoff_max_ms,
                chance=self._session.rng.random(),
            )
            lane.attempt += 1
            order = sorted(lane.failed, key=lambda each: each.sequence) if self._is_idempotent else lane.failed
            lane.waiting.extendleft(reversed(order))
            self._queued_bytes += sum(len(queued.batch) for queued in order)
            lane.failed = []
        if lane.waiting:
            self._open[where] = None

    def expire(self, why: PeerError) -> None:
        """Give up every batch whose delivery time is over and that does not fly."""
        for where, lane in self._lanes.items():
            while lane.waiting and not lane.flying and lane.waiting[0].deadline_ms <= self._session.now_ms:
                queued = self._next(lane)
                self._give_up(queued, why)
                if queued.identity is not None:
                    lane.identity = None
                    self._settle(where, lane)
            if not lane.waiting:
                self._open.pop(where, None)


def bounded_by(build: Callable[[int], ProduceRequest], at_most: int) -> Call:
    """A produce request up to a version."""
    return Call(api=ProduceRequest, build=build, at_least=3, at_most=at_most)


def stamp(batch: bytes | bytearray, identity: ProducerIdentity | None, sequence: int) -> bytearray:
    """Write producer id, epoch and base sequence into a batch's header, and the CRC that follows; in place for a `bytearray`."""
    assert identity is not None, "a producer id is asked for before batches are sent"
    changed = batch if isinstance(batch, bytearray) else bytearray(batch)
    _IDENTITY.pack_into(changed, _IDENTITY_POSITION, identity.producer_id, identity.producer_epoch, sequence)
    _CRC.pack_into(changed, 17, crc32c(memoryview(changed)[21:]))
    return changed


def identify(session: Session) -> Conversation[ProducerIdentity]:
    """Ask any node for a producer id (no transactions). Raises PeerError, also for an id that is none: with it, batches that are sent again would be there twice."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)

    def pick(attempts: Attempts) -> Conversation[Address | None]:
        if not session.cluster.nodes:
            yield from refresh(session, attempts=attempts)
        return session.cluster.candidates()[0]

    response = yield from ask_until(session, request, pick=pick, verdict=lambda answer: error_of(answer.error_code))
    if response.producer_id < 0 or response.producer_epoch < 0:
        raise PeerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the node gave producer id {response.producer_id}, which is none"
        )
    return ProducerIdentity(producer_id=response.producer_id, producer_epoch=response.producer_epoch)
