"""Partitions that this broker began to lead a moment ago, and their followers, until each has fetched.

A follower has one fetch under way at each leader. That waits for half a second where nothing is written, and only the next one asks for the partition as
well: writes with acks=all to the new leader would wait for all of that. So fetches of such followers that wait are answered at once, and those that
come soon, until they ask for it: a follower may hear of its new leader later than the leader itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.broker.partitions import HostedPartition
from headrace.replication.fetch_session_cache import FetchSessionCache

AWAITED_MS = 500
"""As long as a fetch waits by Kafka's default (`replica.fetch.wait.max.ms`): by then every follower that lives has come back by itself."""
SHORT_WAIT_MS = 20


class NewLeaderships:
    """Which followers are awaited for which partitions. O(change): it is empty as a rule."""

    def __init__(self, sessions: FetchSessionCache) -> None:
        self._sessions = sessions
        self._awaited: dict[int, dict[HostedPartition, None]] = {}
        self._until_ms: dict[int, int] = {}
        self._is_new = False

    def begun(self, hosted: HostedPartition, followers: Iterable[int], now_ms: int) -> None:
        """This broker leads a partition in a new epoch."""
        for replica_id in followers:
            if now_ms >= self._until_ms.get(replica_id, 0):
                self._awaited[replica_id] = {}
            self._awaited[replica_id][hosted] = None
            self._until_ms[replica_id] = now_ms + AWAITED_MS
            self._is_new = True

    def fetched(self, hosted: HostedPartition, replica_id: int) -> None:
        """A follower fetched the partition."""
        awaited = self._awaited.get(replica_id)
        if awaited is not None:
            awaited.pop(hosted, None)
            if not awaited:
                self._forget(replica_id)

    def wait_ms(self, replica_id: int, max_wait_ms: int, now_ms: int) -> int:
        """How long a follower's fetch may wait."""
        until_ms = self._until_ms.get(replica_id)
        if until_ms is None:
            return max_wait_ms
        if now_ms >= until_ms:
            self._forget(replica_id)
            return max_wait_ms
        return min(max_wait_ms, SHORT_WAIT_MS)

    def answer_waiting(self) -> None:
        """Answer the fetches that wait of followers that are awaited since the last call."""
        if not self._is_new:
            return
        self._is_new = False
        for session in list(self._sessions):
            if session.answer_now is not None and session.asker.owner in self._awaited:
                session.answer_now()

    def _forget(self, replica_id: int) -> None:
        del self._awaited[replica_id], self._until_ms[replica_id]
