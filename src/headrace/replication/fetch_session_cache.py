"""All fetch sessions of a broker, and who gives way when there are too many (KIP-227)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import itemgetter

from headrace.core.error_code import ErrorCode
from headrace.core.ports import Rng
from headrace.replication.fetch_session import NO_SESSION, NOBODY, Asker, FetchSession, SessionPartition

EVICTION_MS = 120_000
MOST_OF_A_REPLICA = 32
"""Sessions of one broker's replicas that go before those of consumers: `num.replica.fetchers` of it, and those that its former connections left."""
MOST_IN_A_SESSION = 1 << 16
"""Partitions, as many as one request may name; what must look at all of them at once takes a few milliseconds."""
MOST_PARTITIONS = 1 << 18
"""Of all sessions together, and of fetches that wait without one; each takes about half a kilobyte. A cluster's fetchers have fewer on one broker."""
_SHARE = itemgetter(1)


class FetchSessionCache:
    """At most `slots` sessions. Driven by the Fetch handler.

    A full cache makes room by dropping a session that was unused for two minutes; else one of the consumers who have most, so that nobody
    keeps others out by opening ever new ones: of the owner with two more than who asks would have, or, among the connections of one owner, of such a
    connection. A follower goes before consumers (KIP-227: privileged). Otherwise the fetch goes without a session. Partitions are shared out likewise.
    """

    def __init__(self, *, slots: int, rng: Rng) -> None:
        self._slots = slots
        self._rng = rng
        self.by_id: OrderedDict[int, FetchSession] = OrderedDict()
        """Those that were used last at the end."""
        self._privileged: Counter[Hashable] = Counter()
        """Sessions by owner."""
        self._of_owner: Counter[Hashable] = Counter()
        self._of_connection: Counter[Asker] = Counter()
        """The same of consumers."""
        self.evictions = 0
        self.held_partitions = 0

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self.by_id.values())

    def create(
        self,
        partitions: Iterable[tuple[Hashable, SessionPartition]],
        *,
        asker: Asker = NOBODY,
        is_privileged: bool,
        by_id: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """A new session, or None when there is no room for it."""
        is_privileged = is_privileged and self._privileged[asker.owner] < MOST_OF_A_REPLICA
        if not self._make_room(asker, is_privileged=is_privileged, now_ms=now_ms):
            return None
        session_id = self._new_id()
        session = FetchSession(
            session_id, is_privileged=is_privileged, by_id=by_id, now_ms=now_ms, partitions=partitions, asker=asker
        )
        self.by_id[session_id] = session
        self._count(session, 1)
        if not self.grown(session, now_ms=now_ms):
            self._drop(session)
            self.forget(session)
            return None
        return session

    def resume(self, session_id: int, epoch: int, *, now_ms: int) -> FetchSession | ErrorCode:
        """The session for an incremental request, or FETCH_SESSION_ID_NOT_FOUND (70) or INVALID_FETCH_SESSION_EPOCH (71)."""
        session = self.by_id.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.used(session, now_ms=now_ms)
        return session

    def used(self, session: FetchSession, *, now_ms: int) -> None:
        """It was asked for just now."""
        session.used_ms = now_ms
        self.by_id.move_to_end(session.id)

    def end(self, session_id: int, asker: Asker) -> None:
        """The fetcher has finished with it; a session of somebody else stays."""
        session = self.by_id.get(session_id)
        if session is not None and session.asker.owner == asker.owner:
            self.remove(session_id)

    def remove(self, session_id: int) -> None:
        """It is over."""
        session = self.by_id.get(session_id)
        if session is not None:
            self._drop(session)
            self.forget(session)

    def grown(self, session: FetchSession, *, now_ms: int) -> bool:
        """Count the partitions of a session, or of a fetch that waits without one. False when there are more than there may be, in it or in all."""
        self.held_partitions += len(session.partitions) - session.counted
        session.counted = len(session.partitions)
        while self.held_partitions > MOST_PARTITIONS:
            if not self._evict_for_partitions(session, now_ms=now_ms):
                return False
        return session.counted <= MOST_IN_A_SESSION

    def dismiss(self, session: FetchSession) -> None:
        """The session becomes that of one fetch: nobody can ask for it again."""
        self._drop(session)
        session.id = NO_SESSION

    def forget(self, session: FetchSession) -> None:
        """Nobody asks for it any more."""
        self.held_partitions -= session.counted
        session.counted = 0
        session.end()

    # --- who gives way ---

    def _drop(self, session: FetchSession) -> None:
        del self.by_id[session.id]
        self._count(session, -1)

    def _count(self, session: FetchSession, by: int) -> None:
        asker = session.asker
        counts: list[tuple[Counter[Hashable], Hashable]] = [(self._privileged, asker.owner)]
        if not session.is_privileged:
            counts = [(self._of_owner, asker.owner), (self._of_connection, asker)]  # type: ignore[list-item]
        for counter, key in counts:
            counter[key] += by
            if not counter[key]:
                del counter[key]

    def _make_room(self, asker: Asker, *, is_privileged: bool, now_ms: int) -> bool:
        if len(self.by_id) < self._slots:
            return True
        oldest = next(iter(self.by_id.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            return self._evict(oldest)
        victim = self._of_who_has_most(asker, is_privileged=is_privileged)
        return victim is not None and self._evict(victim)

    def _of_who_has_most(self, asker: Asker, *, is_privileged: bool) -> FetchSession | None:
        if not self._of_owner:
            return None
        owner, most = max(self._of_owner.items(), key=_SHARE)
        if not is_privileged and most <= self._of_owner[asker.owner] + 1:
            owner = asker.owner
        of_owner = ((each, share) for each, share in self._of_connection.items() if each.owner == owner)
        heaviest, most = max(of_owner, key=_SHARE, default=(asker, 0))
        if not is_privileged and owner == asker.owner and most <= self._of_connection[asker] + 1:
            return None
        return self._oldest(lambda each: each.asker == heaviest and not each.is_privileged)

    def _evict_for_partitions(self, wanted: FetchSession, *, now_ms: int) -> bool:
        """Drop a session so that `wanted` may have its partitions, if one must give way."""
        oldest = self._oldest(lambda each: each is not wanted)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            return self._evict(oldest)
        held: Counter[Hashable] = Counter()
        for each in self.by_id.values():
            if not each.is_privileged:
                held[each.asker.owner] += each.counted
        own = wanted.asker.owner
        if not wanted.is_privileged and wanted.id not in self.by_id:
            held[own] += wanted.counted
        others = [(owner, count) for owner, count in held.items() if wanted.is_privileged or count > held[own]]
        if not others:
            return False
        owner, _ = max(others, key=_SHARE)
        theirs = [each for each in self.by_id.values() if not each.is_privileged and each.asker.owner == owner]
        return bool(theirs) and self._evict(max(theirs, key=lambda each: each.counted))

    def _oldest(self, may_go: Callable[[FetchSession], bool]) -> FetchSession | None:
        """The session that was unused for longest."""
        return next((each for each in self.by_id.values() if may_go(each)), None)

    def _evict(self, victim: FetchSession) -> bool:
        self.remove(victim.id)
        self.evictions += 1
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(1, 2**31 - 1)
            if session_id not in self.by_id:
                return session_id
