"""Which partitions does a fetcher follow, and what does it know of them already (KIP-227)?"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from headrace.core.error_code import ErrorCode
from headrace.core.ports import Rng

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EVICTION_MS = 120_000
_MAX_EPOCH = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class SessionPartition:
    """One partition of a session: what the fetcher asked for and what it was last told."""

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


class FetchSession:
    """A fetcher's partitions between its requests. `epoch` is what its next request must carry."""

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
        self.partitions: OrderedDict[Hashable, SessionPartition] = OrderedDict(partitions)

    def next_epoch(self) -> None:
        """Count the request that was just served; 0 and -1 have meanings of their own."""
        self.epoch = 1 if self.epoch >= _MAX_EPOCH else self.epoch + 1

    def update(self, changed: Iterable[tuple[Hashable, SessionPartition]], forgotten: Iterable[Hashable]) -> None:
        """Apply an incremental request: new and changed partitions go last, forgotten ones go."""
        for key, asked in changed:
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = asked
                continue
            known.fetch_offset = asked.fetch_offset
            known.max_bytes = asked.max_bytes
            known.current_leader_epoch = asked.current_leader_epoch
            known.log_start_offset = asked.log_start_offset
            known.last_fetched_epoch = asked.last_fetched_epoch
            if asked.topic is not None:
                known.topic = asked.topic
        for key in forgotten:
            self.partitions.pop(key, None)

    def served(self, key: Hashable) -> None:
        """Data was sent for this partition: others come first next time, so that none starves."""
        if key in self.partitions:
            self.partitions.move_to_end(key)


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
        self._sessions.pop(session_id, None)

    def _make_room(self, *, is_privileged: bool, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            victim = oldest
        elif is_privileged:
            unprivileged = next((one for one in self._sessions.values() if not one.is_privileged), None)
            if unprivileged is None:
                return False
            victim = unprivileged
        else:
            return False
        del self._sessions[victim.id]
        self.evictions += 1
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
