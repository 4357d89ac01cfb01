"""Partitions that this broker began to lead a moment ago, and their followers, until each has fetched.

A follower has one fetch under way at each leader. That waits for half a second where nothing is written, and only the next one asks for the partition as
well: writes with acks=all to the new leader would wait for all of that. So fetches of such followers that wait are answered at once, and those that
come soon, until they ask for it: a follower may hear of its new leader later than the leader itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from headrace.broker.partitions import HostedPartition
from headrace.replication.fetch_session_cache import FetchSessionCache

AWAITED_MS = 500
"""As long as a fetch waits by Kafka's default (`replica.fetch.wait.max.ms`): by then every follower that lives has come back by itself."""
SHORT_WAIT_MS = 20


class NewLeaderships:
    """Which followers are awaited for which partitions. O(change): it is empty as a rule.

    A follower that is gone asks for nothing: what is kept of it is what began in the last `AWAITED_MS`, however much is made and deleted.
    """

    def __init__(self, sessions: FetchSessionCache) -> None:
        self._sessions = sessions
        self._awaited: dict[int, OrderedDict[HostedPartition, int]] = {}
        """By follower, and until when (ms); the first ends first."""
        self._is_new = False

    def __len__(self) -> int:
        """All that is awaited of all followers."""
        return sum(map(len, self._awaited.values()))

    def begun(self, hosted: HostedPartition, followers: Iterable[int], now_ms: int) -> None:
        """This broker leads a partition in a new epoch."""
        for replica_id in followers:
            self._forget_past(replica_id, now_ms)
            awaited = self._awaited.setdefault(replica_id, OrderedDict())
            awaited[hosted] = now_ms + AWAITED_MS
            awaited.move_to_end(hosted)
            self._is_new = True

    def fetched(self, hosted: HostedPartition, replica_id: int) -> None:
        """A follower fetched the partition."""
        awaited = self._awaited.get(replica_id)
        if awaited is not None:
            awaited.pop(hosted, None)
            if not awaited:
                del self._awaited[replica_id]

    def wait_ms(self, replica_id: int, max_wait_ms: int, now_ms: int) -> int:
        """How long a follower's fetch may wait."""
        if replica_id in self._awaited:
            self._forget_past(replica_id, now_ms)
        return min(max_wait_ms, SHORT_WAIT_MS) if replica_id in self._awaited else max_wait_ms

    def answer_waiting(self) -> None:
        """Answer the fetches that wait of followers that are awaited since the last call."""
        if not self._is_new:
            return
        self._is_new = False
        for session in self._sessions:
            if session.answer_now is not None and session.asker.owner in self._awaited:
                session.answer_now()

    def _forget_past(self, replica_id: int, now_ms: int) -> None:
        """What was awaited for long enough."""
        awaited = self._awaited.get(replica_id)
        if awaited is None:
            return
        while awaited and next(iter(awaited.values())) <= now_ms:
            awaited.popitem(last=False)
        if not awaited:
            del self._awaited[replica_id]
