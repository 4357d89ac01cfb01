"""The client of scripts and Spark workers, with plain sockets and no event loop.

`BlockingClient` is used by one thread at a time. It is not picklable: make it where it is used.

    with BlockingClient("127.0.0.1:9092") as client:
        ends = client.list_offsets({TopicPartition("flights", 0): LATEST})
        part = client.fetch_raw("flights", 0, 0, max_bytes=8 << 20)      # part.records: memoryview of whole batches
        client.produce_raw("flights", 0, batch)                          # batch: bytes of one record batch v2
        client.run(admin_topics.create_topics, [NewTopic(name="delays", partitions=3)])
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from secrets import SystemRandom
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from headrace.client import fetcher, offsets, producer, routing
from headrace.client.blocking_link import Link, LinkLost
from headrace.client.cluster_view import TopicView
from headrace.client.fetcher import DEFAULT_MAX_BYTES, Fetched, FetchOptions, OffsetOutOfRange
from headrace.client.offsets import ListedOffset
from headrace.client.producer import MAX_QUEUED_BYTES, Delivery, ProduceMachine, SendProduce
from headrace.client.session import Session
from headrace.client.settings import ClientSettings
from headrace.client.talk import (
    Address,
    Answered,
    Ask,
    AskAll,
    Conversation,
    Elapsed,
    Lost,
    Outcome,
    Pause,
    Unsupported,
    Versions,
)
from headrace.client.tls import tls_context
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "BlockingClient",
    "BlockingProducer",
    "Delivery",
    "Fetched",
    "ListedOffset",
    "OffsetOutOfRange",
    "PendingFetch",
]


class PendingFetch:
    """A fetch that was sent and whose answer has not been taken; `BlockingClient.finish_fetch` takes it."""

    __slots__ = ("correlation_id", "link", "options", "positions")

    def __init__(
        self, link: Link | None, correlation_id: int, positions: dict[TopicPartition, int], options: FetchOptions
    ) -> None:
        self.link = link
        self.correlation_id = correlation_id
        self.positions = positions
        self.options = options


class BlockingClient:
    """A client on plain sockets: one connection a node, opened on first use, closed by `close` or the end of a `with`.

    `properties` are Kafka's client settings (`security.protocol`, `sasl.*`, `ssl.*`, `request.timeout.ms`, `default.api.timeout.ms` ...), and
    `headrace.max.decompressed.bytes` (256 MiB), what one batch may open to where it is read; unknown ones are ignored. Every call retries what may be retried until `default.api.timeout.ms` (60 s) and then raises `PeerError` with
    the last error's code; a cluster that cannot be reached is an `OperatorError` naming the addresses: at once where nobody listens at any, unless `is_cluster_known`
    says that somebody reached it there before, and after `first_contact_ms` where nobody speaks our protocol.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "",
        *,
        client_id: str = "headrace",
        properties: Mapping[str, str] | None = None,
        is_controller: bool = False,
        is_cluster_known: bool = False,
        first_contact_ms: int | None = None,
    ) -> None:
        given = {"client.id": client_id, **(properties or {})}
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        if servers:
            given["bootstrap.controllers" if is_controller else "bootstrap.servers"] = servers
        settings = ClientSettings.of(
            given,
            is_controller=is_controller,
            is_cluster_known=is_cluster_known,
            first_contact_ms=first_contact_ms,
        )
        self.session = Session(settings=settings, rng=SystemRandom(), now_ms=now_ms())
        self._tls = tls_context(settings.tls) if settings.tls else None
        self._links: dict[Address, Link] = {}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """A client of the cluster that `bootstrap.servers` of `properties` names."""
        return cls(properties=properties, client_id=properties.get("client.id", "headrace"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; may be called twice."""
        while self._links:
            self._links.popitem()[1].close()

    # -- conversations --------------------------------------------------------------------------------------------------------------

    def run(self, talk: Callable[Concatenate[Session, P], Conversation[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Hold a conversation of `admin_topics`, `admin_configs`, `admin_cluster`, `offsets`, `groups` ... and return its result."""
        self.session.now_ms = now_ms()
        conversation = talk(self.session, *args, **kwargs)
        outcome: Any = None
        while True:
            self.session.now_ms = now_ms()
            try:
                effect = conversation.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(effect, Ask):
                outcome = self._ask(effect)
            elif isinstance(effect, AskAll):
                outcome = self._ask_all(effect.asks)
            elif isinstance(effect, Versions):
                outcome = self._versions(effect)
            else:
                assert isinstance(effect, Pause)
                time.sleep(effect.ms / 1000)
                outcome = Elapsed()

    def link_to(self, address: Address) -> Link:
        """The open connection to a node. Raises LinkLost, or PeerError when the login is refused."""
        link = self._links.get(address)
        if link is not None and link.is_stale():
            self.drop(address)
            link = None
        if link is None:
            settings, cluster = self.session.settings, self.session.cluster
            link = Link(address, settings if cluster.is_met else settings.of_first_contact(), self._tls)
            self._links[address], cluster.is_met = link, True
        return link

    def drop(self, address: Address) -> None:
        """Close the connection to a node."""
        link = self._links.pop(address, None)
        if link is not None:
            link.close()

    def _send(self, ask: Ask) -> tuple[Link, int] | Outcome:
        try:
            link = self.link_to(ask.address)
            sent = link.send(ask.request, ask.timeout_ms)
        except LinkLost as lost:
            self.drop(ask.address)
            return Lost(reason=str(lost), may_have_arrived=lost.may_have_arrived)
        return sent if isinstance(sent, Unsupported) else (link, sent)

    def _receive(self, link: Link, correlation_id: int, timeout_ms: int) -> Outcome:
        try:
            return link.receive(correlation_id, timeout_ms)
        except LinkLost as lost:
            self.drop(link.address)
            return Lost(reason=str(lost))

    def _ask(self, ask: Ask) -> Outcome:
        sent = self._send(ask)
        return self._receive(*sent, ask.timeout_ms) if isinstance(sent, tuple) else sent

    def _ask_all(self, asks: tuple[Ask, ...]) -> list[Outcome]:
        sent = [self._send(ask) for ask in asks]
        return [
            self._receive(*each, ask.timeout_ms) if isinstance(each, tuple) else each
            for each, ask in zip(sent, asks, strict=True)
        ]

    def _versions(self, effect: Versions) -> Outcome:
        try:
            return Answered(response=self.link_to(effect.address).api_versions, version=0)
        except LinkLost as lost:
            self.drop(effect.address)
            return Lost(reason=str(lost))

    # -- what Spark and the tools call most -----------------------------------------------------------------------------------------

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicView]:
        """The named topics (all when None) as the cluster has them now; a topic that does not exist is left out.

        Raises PeerError for a topic that may not be seen.
        """
        found = self.run(routing.refresh, None if names is None else list(names))
        for view in found.values():
            if isinstance(view, PeerError) and view.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise view
        return {name: view for name, view in found.items() if isinstance(view, TopicView)}

    def partitions(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Partition numbers of each topic that exists."""
        return {name: [part.partition for part in view.partitions] for name, view in self.topics(names).items()}

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, is_read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset for each partition's timestamp in ms, or EARLIEST (-2), LATEST (-1), MAX_TIMESTAMP (-3) ... from `client.offsets`.

        Raises the first PeerError among the partitions.
        """
        found = self.run(offsets.list_offsets, wanted, is_read_committed=is_read_committed)
        listed = {where: result for where, result in found.items() if isinstance(result, ListedOffset)}
        for result in found.values():
            if isinstance(result, PeerError):
                raise result
        return listed

    def fetch_raw(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_wait_ms: int = 500,
        is_read_committed: bool = False,
    ) -> Fetched:
        """Read whole record batches from `offset` on, at least one when there is one, about `max_bytes` in all.

        The first batch may begin below `offset`. `records` stays valid as long as it (or a view of it) is held.
        Raises OffsetOutOfRange (with `log_start_offset`) when the log does not hold `offset`.
        """
        return self.run(
            fetcher.fetch_one,
            TopicPartition(topic, partition),
            offset,
            FetchOptions(max_bytes=max_bytes, max_wait_ms=max_wait_ms, is_read_committed=is_read_committed),
        )

    def start_fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_wait_ms: int = 500,
        is_read_committed: bool = False,
    ) -> PendingFetch:
        """Send a fetch and return at once; the answer travels while the caller works. Take it with `finish_fetch`, in any order."""
        where = TopicPartition(topic, partition)
        positions = {where: offset}
        options = FetchOptions(max_bytes=max_bytes, max_wait_ms=max_wait_ms, is_read_committed=is_read_committed)
        by_leader, unknown = fetcher.split_positions(self.session, positions)
        if not unknown:
            (leader,) = by_leader
            request = fetcher.fetch_request(self.session, positions, options)
            timeout_ms = self.session.settings.request_timeout_ms + max_wait_ms
            sent = self._send(
                Ask(address=self.session.cluster.nodes[leader].address, request=request, timeout_ms=timeout_ms)
            )
            if isinstance(sent, tuple):
                return PendingFetch(sent[0], sent[1], positions, options)
        return PendingFetch(None, -1, positions, options)

    def finish_fetch(self, pending: PendingFetch) -> Fetched:
        """The answer of `start_fetch`, asked for again if it got lost. Raises as `fetch_raw`."""
        ((where, offset),) = pending.positions.items()
        if pending.link is not None:
            timeout_ms = self.session.settings.request_timeout_ms + pending.options.max_wait_ms
            outcome = self._receive(pending.link, pending.correlation_id, timeout_ms)
            parts = fetcher.settle(self.session, pending.link.address, outcome, pending.positions)
            part = parts.get(where) if isinstance(parts, dict) else None
            if isinstance(part, Fetched):
                if not fetcher.turn_to_copy(self.session, where, part):
                    return part
            elif isinstance(part, OffsetOutOfRange):
                if not fetcher.turn_to_leader(self.session, where, part):
                    raise part
            else:
                self.session.cluster.forget_leader(where)
        return self.run(fetcher.fetch_one, where, offset, pending.options)

    def fetch_range(
        self,
        topic: str,
        partition: int,
        *,
        start: int,
        end: int,
        max_bytes: int = DEFAULT_MAX_BYTES,
        is_read_committed: bool = False,
    ) -> Iterator[Fetched]:
        """Read all batches that hold offsets from `start` up to `end` (exclusive), asking for the next while the caller works on the last.

        Raises PeerError(REQUEST_TIMED_OUT) when the log does not grow to `end` within `default.api.timeout.ms`.
        """
        if start >= end:
            return
        idle_since = now_ms()
        pending = self.start_fetch(topic, partition, start, max_bytes=max_bytes, is_read_committed=is_read_committed)
        while True:
            part = self.finish_fetch(pending)
            if part.next_offset < end:
                pending = self.start_fetch(
                    topic, partition, part.next_offset, max_bytes=max_bytes, is_read_committed=is_read_committed
                )
            if len(part.records):
                yield part
                idle_since = now_ms()
            elif now_ms() - idle_since > self.session.settings.default_api_timeout_ms:
                raise PeerError(ErrorCode.REQUEST_TIMED_OUT, f"{topic}-{partition} holds no records up to offset {end}")
            if part.next_offset >= end:
                return

    def produce_raw(
        self,
        topic: str,
        partition: int,
        batch: bytes | bytearray | memoryview,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> int:
        """Append one record batch (v2) and return its base offset, -1 with `acks=0`. Not idempotent: a retry may write twice; see `producer`."""
        out = BlockingProducer(self, acks=acks, is_idempotent=False, max_in_flight=1, timeout_ms=timeout_ms)
        delivery = out.send(topic, partition, bytes(batch) if isinstance(batch, memoryview) else batch)
        out.flush()
        return delivery.base_offset

    def producer(self, *, acks: int = -1, is_idempotent: bool = True, max_in_flight: int = 5) -> BlockingProducer:
        """A pipelined producer of ready-made batches."""
        return BlockingProducer(
            self, acks=acks, is_idempotent=is_idempotent and acks == -1, max_in_flight=max_in_flight
        )


class BlockingProducer:
    """Sends ready-made record batches, up to `max_in_flight` requests a node at a time, in order a partition; idempotent when asked.

    When idempotent, producer id, epoch and base sequence are stamped into the batch in place and its CRC is computed anew, so `batch` should
    be a `bytearray`, or it is copied. Driven by its caller's thread: `send` moves things on, `flush` finishes them.
    """

    def __init__(
        self,
        client: BlockingClient,
        *,
        acks: int = -1,
        is_idempotent: bool = True,
        max_in_flight: int = 5,
        timeout_ms: int | None = None,
    ) -> None:
        """`timeout_ms` is how long a node waits for its replicas, by default `request.timeout.ms`."""
        self._client = client
        self._acks = acks
        self._max_in_flight = max_in_flight
        waits_ms = client.session.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        self._machine = ProduceMachine(client.session, acks=acks, is_idempotent=is_idempotent, timeout_ms=waits_ms)
        self._flying: dict[int, list[tuple[SendProduce, Link, int]]] = {}
        self._errors: list[PeerError] = []

    def send(self, topic: str, partition: int, batch: bytes | bytearray) -> Delivery:
        """Queue one batch and send what may be sent; blocks while the node has `max_in_flight` requests outstanding."""
        self._client.session.now_ms = now_ms()
        delivery = self._machine.add(TopicPartition(topic, partition), batch)
        self._dispatch()
        while self._machine.has_queue(delivery.where) and self._flying:
            self._take_one()
            self._dispatch()
        while self._machine.queued_bytes > MAX_QUEUED_BYTES:
            self._step()
        return delivery

    def poll(self, timeout_ms: int = 0) -> None:
        """Take the answers that are there, waiting up to `timeout_ms` for the first."""
        self._client.session.now_ms = now_ms()
        self._dispatch()
        while ready := self._ready(timeout_ms):
            for leader in ready:
                self._take_one(leader)
            self._dispatch()
            timeout_ms = 0

    def _ready(self, timeout_ms: int) -> list[int]:
        """The leaders whose next answer, or loss, can be taken; waits for the first up to `timeout_ms`."""
        known = [leader for leader, flying in self._flying.items() if flying[0][1].has_input]
        if known or not self._flying:
            return known
        by_fileno = {flying[0][1].fileno(): leader for leader, flying in self._flying.items()}
        poller = select.poll()
        for fileno in by_fileno:
            poller.register(fileno, select.POLLIN)
        return [by_fileno[fileno] for fileno, _ in poller.poll(timeout_ms)]

    def flush(self) -> None:
        """Wait until every batch is acknowledged or has failed; raises the first PeerError since the last flush."""
        while self._machine.has_work:
            self._step()
        error, self._machine.first_error = self._machine.first_error, None
        if error is not None:
            raise error

    def _step(self) -> None:
        """Send what may go, then take one answer, or wait until something may go."""
        self._client.session.now_ms = now_ms()
        self._dispatch()
        if self._flying:
            self._take_one()
        elif self._machine.has_work:
            due = self._machine.next_send_ms()
            sleep_ms(max((due or 0) - now_ms(), 10))
            self._client.session.now_ms = now_ms()
            self._machine.expire(PeerError(ErrorCode.REQUEST_TIMED_OUT, "the batch could not be delivered in time"))

    def close(self) -> None:
        """Flush; the connections stay the client's."""
        self.flush()

    def _dispatch(self) -> None:
        """Send everything that may be sent now."""
        if self._machine.needs_identity:
            self._machine.identified(self._client.run(producer.identify))
        missing = self._machine.topics_without_leader()
        if missing:
            self._learn(missing)
        while sends := self._machine.sends(
            is_free=lambda leader: len(self._flying.get(leader, ())) < self._max_in_flight
        ):
            for send in sends:
                self._send(send)

    def _learn(self, topics: list[str]) -> None:
        found = self._client.run(routing.refresh, topics, is_auto_created=True)
        for name, view in found.items():
            if isinstance(view, PeerError):
                self._machine.refused(name, view)

    def _send(self, send: SendProduce) -> None:
        try:
            link = self._client.link_to(send.address)
            sent = link.send(
                send.request, self._client.session.settings.request_timeout_ms, is_answered=self._acks != 0
            )
        except LinkLost as lost:
            self._lost(send.address, send, str(lost))
            return
        if isinstance(sent, Unsupported):
            raise routing.unsupported(sent)
        if self._acks == 0:
            self._machine.answered(send, None, 0)
        else:
            self._flying.setdefault(send.leader, []).append((send, link, sent))

    def _take_one(self, leader: int | None = None) -> None:
        """Wait for the oldest answer of one leader."""
        chosen = next(iter(self._flying)) if leader is None else leader
        send, link, correlation_id = self._flying[chosen].pop(0)
        if not self._flying[chosen]:
            del self._flying[chosen]
        try:
            answer = link.receive(correlation_id, self._client.session.settings.request_timeout_ms)
            self._client.session.now_ms = now_ms()
            self._machine.answered(send, answer.response, answer.version)
        except LinkLost as lost:
            self._lost(link.address, send, str(lost))

    def _lost(self, address: Address, send: SendProduce, reason: str) -> None:
        """The connection is gone, and with it the answers of everything that flies on it."""
        self._client.drop(address)
        self._client.session.now_ms = now_ms()
        self._machine.lost(send, reason)
        for other, _, _ in self._flying.pop(send.leader, []):
            self._machine.lost(other, reason)


def sleep_ms(ms: int) -> None:
    """Let `ms` milliseconds go by."""
    time.sleep(ms / 1000)


def now_ms() -> int:
    """Monotonic milliseconds: the clock of every session."""
    return time.monotonic_ns() // 1_000_000
