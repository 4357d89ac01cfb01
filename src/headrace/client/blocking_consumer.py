"""The consumer of scripts, alone or as a member of a group, with plain sockets.

with BlockingClient("127.0.0.1:9092") as client:
    consumer = BlockingConsumer(client, group_id="readers", topics=["flights"], reset="earliest")
    for chunk in consumer.poll(1_000):
        for header, record in consumer.records(chunk):
            ...
    consumer.close()
"""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.client import fetcher, offsets, routing
from headrace.client.blocking import BlockingClient, now_ms, sleep_ms
from headrace.client.blocking_link import Link, LinkLost
from headrace.client.cluster_view import TopicView
from headrace.client.committed import data_records, payload_bytes
from headrace.client.consumption import Chunk, Consumption, PlannedFetch, Reset
from headrace.client.fetcher import FetchOptions
from headrace.client.membership import REBALANCE_TIMEOUT_MS, Membership
from headrace.client.offsets import CommittedOffset
from headrace.client.talk import Lost, Outcome, Unsupported
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.records.batch import BatchHeader
from headrace.records.record import Record
from headrace.wire.messages.heartbeat import HeartbeatRequest

LOOK_AGAIN_MS = 5_000
"""How often the topics that match a pattern are looked up."""
MOST_NAMED = 1_000
"""So many topics of other members are looked up by name; for more, which any member may say, all that there are."""


class BlockingConsumer:
    """Reads topics for one thread; keeps one fetch in the air for each leader while the caller works.

    With `topics` or `pattern` and a group the partitions are shared among its members, else all of them are read here; `assign` names them
    one by one. Nothing is committed but by `commit`.
    """

    def __init__(
        self,
        client: BlockingClient,
        *,
        group_id: str | None = None,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        reset: Reset = "latest",
        options: FetchOptions | None = None,
    ) -> None:
        self._client = client
        self._options = options or FetchOptions(max_bytes=50 << 20, max_partition_bytes=1 << 20)
        self._machine = Consumption(client.session, options=self._options, reset=reset)
        self._topics = tuple(topics)
        self._pattern = re.compile(pattern) if pattern else None
        self._group_id = group_id
        self._member = Membership(client.session, group_id, ()) if group_id and (topics or pattern) else None
        self._flying: dict[int, tuple[PlannedFetch, Link, int]] = {}
        self._looked_at_ms: int | None = None
        self._counts: dict[str, int] = {}
        self.rebalance_ms = 0

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read here."""
        return sorted([*self._machine.positions, *self._machine.unplaced])

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset after what `poll` gave last, by partition."""
        return self._machine.positions

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on."""
        self._machine.assign(positions)
        for where, offset in positions.items():
            self._machine.seek(where, offset)

    def records(
        self, chunk: Chunk, *, on_unreadable: Callable[[PeerError], None] | None = None
    ) -> Iterator[tuple[BatchHeader, Record]]:
        """The records of a chunk that a reader may see. Raises PeerError for records that cannot be read; with `on_unreadable` it is told, and the batch is left there."""
        return data_records(
            chunk.fetched.records,
            chunk.fetched.aborted,
            start=chunk.start,
            is_read_committed=self._options.is_read_committed,
            max_bytes=self._client.session.settings.max_decompressed_bytes,
            on_unreadable=on_unreadable,
        )

    def payload_bytes(self, chunk: Chunk, *, most: int) -> tuple[int, int]:
        """(count, bytes of keys and values) of up to `most` records of a chunk. Raises PeerError for records that cannot be read."""
        return payload_bytes(
            chunk.fetched.records,
            start=chunk.start,
            most=most,
            max_bytes=self._client.session.settings.max_decompressed_bytes,
        )

    def poll(self, timeout_ms: int) -> list[Chunk]:
        """What has arrived, waiting up to `timeout_ms` for the first of it. Raises PeerError for what will not pass."""
        deadline = now_ms() + timeout_ms
        while True:
            self._client.session.now_ms = now_ms()
            self._subscribe()
            self._take_part()
            self._place()
            self._send()
            chunks = self._receive(max(deadline - now_ms(), 0))
            if chunks:
                self._client.session.now_ms = now_ms()
                self._send()
                return chunks
            if now_ms() >= deadline:
                return []

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit for the group: the offset after the last record worked on, by partition. Raises PeerError."""
        if not positions or self._group_id is None:
            return
        member = self._member
        taken = self._client.run(
            offsets.commit_offsets,
            self._group_id,
            {where: CommittedOffset(offset=offset) for where, offset in positions.items()},
            member_id=member.member_id if member else "",
            generation_id=member.generation_id if member else -1,
        )
        for error in taken.values():
            if error is not None:
                raise error

    def close(self) -> None:
        """Leave the group. The connections stay the client's."""
        if self._member is not None and (call := self._member.leaving()) is not None:
            self._client.run(routing.ask_coordinator, self._member.group_id, call, verdict=_never, timeout_ms=5_000)
        for planned, _, _ in self._flying.values():
            self._client.drop(planned.address)
        self._flying = {}

    def _subscribe(self) -> None:
        """Look up which partitions the topics have: once, and again and again for a pattern or topics that do not exist yet."""
        if not self._topics and self._pattern is None:
            return
        now = now_ms()
        if self._looked_at_ms is not None and now - self._looked_at_ms < LOOK_AGAIN_MS:
            return
        self._looked_at_ms = now
        found = self._client.run(routing.refresh, None if self._pattern else self._topics)
        views = {
            name: view
            for name, view in found.items()
            if isinstance(view, TopicView)
            and (self._pattern is None or (self._pattern.fullmatch(name) and not view.is_internal))
        }
        for name, view in found.items():
            if isinstance(view, PeerError) and not view.code.is_retriable:
                raise PeerError(view.code, f"{name}: {view.message}")
        self._counts = {name: len(view.partitions) for name, view in views.items()}
        if self._member is not None:
            self._member.resubscribe(self._topics or sorted(views))
        else:
            wanted = [TopicPartition(name, part.partition) for name, view in views.items() for part in view.partitions]
            if sorted(wanted) != self.assignment:
                self._machine.assign(wanted)

    def _take_part(self) -> None:
        """Do what the group protocol wants now, until the member is stable."""
        member = self._member
        if member is None or not member.topics:
            return
        began = now_ms()
        is_joining = False
        while (call := member.next_call()) is not None:
            is_rebalance = call.api is not HeartbeatRequest
            is_joining = is_joining or is_rebalance
            self._client.session.now_ms = now_ms()
            try:
                response = self._client.run(
                    routing.ask_coordinator,
                    member.group_id,
                    call,
                    verdict=_coordinator_moved,
                    timeout_ms=REBALANCE_TIMEOUT_MS,
                )
            except PeerError:
                member.lost()
                raise
            if member.answered(response, self._counts_of(member.shared_topics(response))):
                self._machine.assign(member.assignment)
        if is_joining:
            self.rebalance_ms += now_ms() - began

    def _counts_of(self, topics: frozenset[str]) -> Mapping[str, int]:
        """How many partitions there are of the own topics and of these, which the leader shares out for members that subscribe to others."""
        missing = topics - self._counts.keys()
        if not missing:
            return self._counts
        found = self._client.run(routing.refresh, sorted(missing) if len(missing) <= MOST_NAMED else None)
        others = {name: view for name, view in found.items() if name in missing and isinstance(view, TopicView)}
        return {**self._counts, **{name: len(view.partitions) for name, view in others.items()}}

    def _place(self) -> None:
        if not self._machine.unplaced:
            return
        committed: Mapping[TopicPartition, CommittedOffset | PeerError] = {}
        if self._group_id is not None and self._member is not None:
            committed = self._client.run(offsets.fetch_committed, self._group_id, list(self._machine.unplaced))
        self._client.run(lambda session: self._machine.place(committed))

    def _send(self) -> None:
        planned, unknown = self._machine.plan(is_free=lambda leader: leader not in self._flying)
        for plan in planned:
            try:
                link = self._client.link_to(plan.address)
                sent = link.send(plan.request, self._client.session.settings.request_timeout_ms)
            except LinkLost as lost:
                self._lost(plan, str(lost))
                continue
            if isinstance(sent, Unsupported):
                raise routing.unsupported(sent)
            self._flying[plan.leader] = (plan, link, sent)
        if unknown:
            self._client.run(routing.refresh, unknown)

    def _lost(self, plan: PlannedFetch, reason: str) -> None:
        self._client.drop(plan.address)
        self._take(plan, Lost(reason=reason))

    def _receive(self, timeout_ms: int) -> list[Chunk]:
        """The data of the answers that are there, after waiting for the first."""
        if not self._flying:
            sleep_ms(min(timeout_ms, self._client.session.settings.retry_backoff_ms))
            return []
        ready = [leader for leader, (_, link, _) in self._flying.items() if link.has_input]
        if not ready:
            poller = select.poll()
            by_fileno = {link.fileno(): leader for leader, (_, link, _) in self._flying.items()}
            for fileno in by_fileno:
                poller.register(fileno, select.POLLIN)
            wait = timeout_ms if self._member is None else min(timeout_ms, 1_000)
            ready = [by_fileno[fileno] for fileno, _ in poller.poll(wait) if fileno in by_fileno]
        chunks: list[Chunk] = []
        for leader in ready:
            plan, link, correlation_id = self._flying.pop(leader)
            try:
                timeout = self._client.session.settings.request_timeout_ms
                outcome: Outcome = link.receive(correlation_id, timeout)
            except LinkLost as lost:
                self._lost(plan, str(lost))
                continue
            chunks += self._take(plan, outcome)
        return chunks

    def _take(self, plan: PlannedFetch, outcome: Outcome) -> list[Chunk]:
        session = self._client.session
        result = fetcher.settle(session, plan.address, outcome, plan.positions)
        if isinstance(result, dict):
            chunks = self._machine.take(plan.positions, result)
            is_whole = len(result) == len(plan.positions) and not any(
                isinstance(part, PeerError) or part.preferred_replica >= 0 for part in result.values()
            )
            if not chunks and not is_whole:
                sleep_ms(session.settings.retry_backoff_ms)  # a node may send us elsewhere, or back, again and again
            return chunks
        if isinstance(result, PeerError) and not result.code.is_retriable:
            raise result
        for where in plan.positions:
            session.cluster.forget_leader(where)
        sleep_ms(session.settings.retry_backoff_ms)
        return []


def _never(response: object) -> PeerError | None:
    return None


def _coordinator_moved(response: object) -> PeerError | None:
    """Only these errors are the router's business; the others mean something to the member."""
    code = ErrorCode.known(getattr(response, "error_code", 0))
    moved = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return PeerError(code) if code in moved else None
