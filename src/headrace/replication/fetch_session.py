"""Fetch sessions: which partitions a fetcher follows, what it knows of them, and which of them changed since (KIP-227)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from headrace.core.error_code import ErrorCode
from headrace.core.ports import Rng
from headrace.replication.isr import FollowerProgress
from headrace.replication.waiting import PartitionWaiters

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EVICTION_MS = 120_000
MOST_IN_A_SESSION = 1 << 16
"""Partitions, as many as one request may name; what must look at all of them at once takes a few milliseconds."""
MOST_PARTITIONS = 1 << 18
"""Of all sessions together, and of fetches that wait without one; each takes about half a kilobyte. A cluster's fetchers have fewer on one broker."""
_MAX_EPOCH = 2**31 - 1
_TURN = attrgetter("turn")


@dataclass(slots=True, kw_only=True, eq=False)
class SessionPartition:
    """One partition of a session: what the fetcher asked for and what it was last told. A `waiting.Reader`.

    `turn` orders the partitions of a session: the lowest is read first. `waiters` is where it is subscribed, `progress` the follower's whose
    fetches this is.
    """

    topic: str | None
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    log_start_offset: int = -1
    last_fetched_epoch: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    turn: int = 0
    session: FetchSession | None = None
    waiters: PartitionWaiters | None = None
    progress: FollowerProgress | None = None

    def was_told(self, *, high_watermark: int, log_start_offset: int, is_loud: bool) -> bool:
        """Note what is told now; whether it is worth telling: data or an error (`is_loud`), or a change of the two offsets."""
        tell = is_loud
        if high_watermark != self.told_high_watermark:
            self.told_high_watermark = high_watermark
            tell = True
        if log_start_offset != self.told_log_start_offset:
            self.told_log_start_offset = log_start_offset
            tell = True
        return tell

    def moved(self) -> None:
        """The partition has more to read, or something to tell: its session reads it next time, or now if it waits."""
        self.waiters = None
        session = self.session
        if session is not None:
            session.changed[self] = None
            if session.on_change is not None:
                session.on_change(self)

    def subscribe(self, waiters: PartitionWaiters, *, at_log_end: bool) -> None:
        """Hear of the next move."""
        known = self.waiters
        if known is not waiters:
            if known is not None:
                known.unsubscribe(self)
            self.waiters = waiters
            waiters.subscribe(self, at_log_end=at_log_end)

    def leave(self) -> None:
        """The session ends, or goes on without this partition."""
        session, self.session = self.session, None
        if self.waiters is not None:
            self.waiters.unsubscribe(self)
            self.waiters = None
        if self.progress is not None:
            self.progress.leave_session(session)
            self.progress = None


class FetchSession:
    """A fetcher's partitions between its requests. `epoch` is what its next request must carry.

    `counted` of its partitions are in the sum of its cache. `changed` holds what the next fetch must look at: what the fetcher asked for anew, what moved, and what had something to give or an error
    when it was last read. All others have nothing for the fetcher, and it knows their offsets. `on_change` is told of each move while
    a fetch waits. A fetch without a session has one that nobody can ask for again (`NO_SESSION`).
    """

    __slots__ = (
        "by_id",
        "changed",
        "counted",
        "created_ms",
        "epoch",
        "id",
        "is_privileged",
        "on_change",
        "partitions",
        "terms",
        "turns",
        "used_ms",
    )

    def __init__(
        self,
        session_id: int,
        *,
        is_privileged: bool,
        by_id: bool,
        now_ms: int,
        partitions: Iterable[tuple[Hashable, SessionPartition]],
    ) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.is_privileged = is_privileged
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: dict[Hashable, SessionPartition] = {}
        self.changed: dict[SessionPartition, None] = {}
        self.on_change: Callable[[SessionPartition], None] | None = None
        self.terms: Hashable = None
        self.turns = 0
        self.counted = 0
        for key, partition in partitions:
            self._add(key, partition)

    def next_epoch(self) -> None:
        """Count the request that was just served; 0 and -1 have meanings of their own."""
        self.epoch = 1 if self.epoch >= _MAX_EPOCH else self.epoch + 1

    def asked_by(self, terms: Hashable) -> None:
        """Somebody else asks, or otherwise than before (replica, isolation level): everything is read anew."""
        self.terms = terms
        self.changed = dict.fromkeys(self.partitions.values())

    def update(self, changed: Iterable[tuple[Hashable, SessionPartition]], forgotten: Iterable[Hashable]) -> None:
        """Apply an incremental request: new partitions go last, changed ones are read anew, forgotten ones go."""
        for key, asked in changed:
            known = self.partitions.get(key)
            if known is None:
                self._add(key, asked)
                continue
            known.fetch_offset = asked.fetch_offset
            known.max_bytes = asked.max_bytes
            known.current_leader_epoch = asked.current_leader_epoch
            known.log_start_offset = asked.log_start_offset
            known.last_fetched_epoch = asked.last_fetched_epoch
            if asked.topic is not None:
                known.topic = asked.topic
            self.changed[known] = None
        for key in forgotten:
            gone = self.partitions.pop(key, None)
            if gone is not None:
                self.changed.pop(gone, None)
                gone.leave()

    def to_read(self) -> list[SessionPartition]:
        """What must be looked at, those first that were not served for longest."""
        changed = self.changed
        return list(changed) if len(changed) < 2 else sorted(changed, key=_TURN)

    def served(self, partition: SessionPartition) -> None:
        """Data was sent for this partition: others come first next time, so that none starves."""
        self.turns += 1
        partition.turn = self.turns

    def end(self) -> None:
        """Nobody asks for it any more."""
        for partition in self.partitions.values():
            partition.leave()
        self.partitions.clear()
        self.changed.clear()

    def _add(self, key: Hashable, partition: SessionPartition) -> None:
        self.turns += 1
        partition.turn = self.turns
        partition.session = self
        self.partitions[key] = partition
        self.changed[partition] = None


class FetchSessionCache:
    """All sessions of a broker: at most `slots`. Driven by the Fetch handler.

    A full cache makes room by dropping a session that was unused for two minutes, else, for a follower only, the oldest-used session of a
    consumer (KIP-227: privileged); otherwise the fetch goes without a session.
    """

    def __init__(self, *, slots: int, rng: Rng) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evictions = 0
        self.held_partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def create(
        self, partitions: Iterable[tuple[Hashable, SessionPartition]], *, is_privileged: bool, by_id: bool, now_ms: int
    ) -> FetchSession | None:
        """A new session, or None when there is no room for it."""
        if not self._make_room(is_privileged=is_privileged, now_ms=now_ms):
            return None
        session_id = self._new_id()
        session = FetchSession(
            session_id, is_privileged=is_privileged, by_id=by_id, now_ms=now_ms, partitions=partitions
        )
        self._sessions[session_id] = session
        if not self.grown(session, now_ms=now_ms):
            del self._sessions[session_id]
            self.forget(session)
            return None
        return session

    def resume(self, session_id: int, epoch: int, *, now_ms: int) -> FetchSession | ErrorCode:
        """The session for an incremental request, or FETCH_SESSION_ID_NOT_FOUND (70) or INVALID_FETCH_SESSION_EPOCH (71)."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def remove(self, session_id: int) -> None:
        """The fetcher has finished with it."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.forget(session)

    def grown(self, session: FetchSession, *, now_ms: int) -> bool:
        """Count the partitions of a session, or of a fetch that waits without one. False when there are more than there may be, in it or in all."""
        self.held_partitions += len(session.partitions) - session.counted
        session.counted = len(session.partitions)
        while self.held_partitions > MOST_PARTITIONS:
            if not self._evict(session, is_privileged=session.is_privileged, now_ms=now_ms):
                return False
        return session.counted <= MOST_IN_A_SESSION

    def dismiss(self, session: FetchSession) -> None:
        """The session becomes that of one fetch: nobody can ask for it again."""
        del self._sessions[session.id]
        session.id = NO_SESSION

    def forget(self, session: FetchSession) -> None:
        """Nobody asks for it any more."""
        self.held_partitions -= session.counted
        session.counted = 0
        session.end()

    def _make_room(self, *, is_privileged: bool, now_ms: int) -> bool:
        return len(self._sessions) < self._slots or self._evict(None, is_privileged=is_privileged, now_ms=now_ms)

    def _evict(self, wanted: FetchSession | None, *, is_privileged: bool, now_ms: int) -> bool:
        """Drop the session that must give way to `wanted`, if one must."""
        oldest = next((one for one in self._sessions.values() if one is not wanted), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            victim = oldest
        elif is_privileged:
            others = (one for one in self._sessions.values() if one is not wanted and not one.is_privileged)
            unprivileged = next(others, None)
            if unprivileged is None:
                return False
            victim = unprivileged
        else:
            return False
        self.remove(victim.id)
        self.evictions += 1
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
