"""How far every other replica is, as its fetches tell the leader."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.raft.quorum import majority_of
from headrace.raft.voters import VoterSet

OBSERVER_SESSION_MS = 300_000
"""An observer that did not fetch for so long is forgotten (S4-48)."""

MOST_OBSERVERS = 4_096
"""Beyond it who has not fetched for longest is forgotten: anybody can fetch under any id and directory. A real observer, which fetches twice a second, is known again with its next fetch."""

CAUGHT_UP_WITHIN_MS = 3_600_000
"""A replica may become voter when it was caught up once, and fetched within this time (KIP-853)."""


@dataclass(slots=True)
class ReplicaProgress:
    """How far another replica is. Offsets -1 = not known; times in ms, -1 = never.

    `contact_ms` is the last fetch of log or snapshot in this epoch, or when the epoch or its being a voter began.
    """

    replica_id: int
    directory_id: Uuid
    log_end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    last_fetch_leader_end_offset: int = -1
    contact_ms: int = 0

    def fetched(self, *, fetch_offset: int, leader_end: int, now_ms: int) -> bool:
        """It asked from `fetch_offset` on, so it holds everything below. True when that is news (S4-49)."""
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = max(now_ms, self.last_caught_up_ms)
        elif 0 < self.last_fetch_leader_end_offset <= fetch_offset:
            self.last_caught_up_ms = max(self.last_fetch_ms, self.last_caught_up_ms)
        self.last_fetch_ms = self.contact_ms = max(now_ms, self.last_fetch_ms)
        self.last_fetch_leader_end_offset = max(leader_end, self.last_fetch_leader_end_offset)
        is_news = fetch_offset != self.log_end_offset
        self.log_end_offset = fetch_offset
        return is_news

    def is_caught_up(self, now_ms: int) -> bool:
        """Whether it may become a voter (B-R24)."""
        return self.last_caught_up_ms > 0 and self.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS


class Replicas:
    """All replicas but this one, in one epoch of this leader: voters by id, observers by id and directory."""

    def __init__(self, own_id: int, voters: VoterSet, now_ms: int) -> None:
        self._own_id = own_id
        self.voters: dict[int, ReplicaProgress] = {}
        self._observers: dict[tuple[int, Uuid], ReplicaProgress] = {}
        self.set_voters(voters, now_ms)

    def set_voters(self, voters: VoterSet, now_ms: int) -> None:
        """Others are voters now: who was one becomes an observer, and what was known of a new one stays known.

        A static voter (zero directory id) that is told by its directory from now on is the same one.
        """
        before, self.voters = self.voters, {}
        for voter in voters.voters:
            if voter.voter_id == self._own_id:
                continue
            known = before.pop(voter.voter_id, None)
            was_static = known is not None and known.directory_id == ZERO_UUID
            if known is not None and not was_static and not voter.is_replica(known.replica_id, known.directory_id):
                self._observe(known)
                known = None
            if known is None:
                observer = self._observers.pop((voter.voter_id, voter.directory_id), None)
                known = observer or ReplicaProgress(voter.voter_id, voter.directory_id)
                known.contact_ms = now_ms
            known.directory_id = voter.directory_id
            self.voters[voter.voter_id] = known
        for former in before.values():
            self._observe(former)

    def _observe(self, former: ReplicaProgress) -> None:
        if former.last_fetch_ms >= 0:
            self._keep(former)

    def _keep(self, observer: ReplicaProgress) -> None:
        """It is the last of all to be forgotten."""
        key = observer.replica_id, observer.directory_id
        self._observers.pop(key, None)
        if len(self._observers) >= MOST_OBSERVERS:
            del self._observers[next(iter(self._observers))]
        self._observers[key] = observer

    def find(self, replica_id: int, directory_id: Uuid, voters: VoterSet) -> ReplicaProgress | None:
        """What is known of a replica, voter or not."""
        if voters.is_voter(replica_id, directory_id):
            return self.voters.get(replica_id)
        return self._observers.get((replica_id, directory_id))

    def of(self, replica_id: int, directory_id: Uuid, voters: VoterSet) -> ReplicaProgress:
        """The same for one that fetches; an unknown one is an observer from now on."""
        known = self.find(replica_id, directory_id, voters) or ReplicaProgress(replica_id, directory_id)
        if known is not self.voters.get(replica_id):
            self._keep(known)
        return known

    def count_observers(self, now_ms: int) -> int:
        """How many `observers` would name; changes nothing."""
        return sum(now_ms - each.last_fetch_ms < OBSERVER_SESSION_MS for each in self._observers.values())

    def observers(self, now_ms: int) -> list[ReplicaProgress]:
        """Those that fetched within the session time, by id; the others are forgotten (S4-48)."""
        for key in [key for key, each in self._observers.items() if now_ms - each.last_fetch_ms >= OBSERVER_SESSION_MS]:
            del self._observers[key]
        return [self._observers[key] for key in sorted(self._observers)]

    def successors(self) -> list[ReplicaProgress]:
        """The voters, the most caught-up first (B-R08)."""
        return sorted(self.voters.values(), key=lambda each: (-each.log_end_offset, each.replica_id))

    def majority_contact_ms(self, *, voters: int, is_own_voter: bool) -> int | None:
        """Since when at the latest a majority, this leader included if it is a voter, was in contact; None: it needs no other (B-R16)."""
        needed = majority_of(voters) - (1 if is_own_voter else 0)
        if needed <= 0:
            return None
        contacts = sorted((each.contact_ms for each in self.voters.values()), reverse=True)
        return contacts[needed - 1]
