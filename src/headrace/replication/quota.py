"""The rate at which a broker may send to, or take from, replicas that are behind (KIP-73, B-P09): bytes counted in samples, against a bound."""

from __future__ import annotations

from collections import deque
from typing import Final

UNBOUNDED: Final = 2**63 - 1


class ReplicationQuota:
    """Bytes a second over the last samples, and whether that is more than `bound`. Pure: who asks says what time it is.

    A sample begins with the first bytes after the one before has ended; `samples` of them count. Source: Kafka behaviour (ReplicationQuotaManager, SimpleRate).
    """

    __slots__ = ("_kept", "_lasts_ms", "_sample_ms", "_samples", "_total", "bound")

    def __init__(self, *, samples: int, sample_ms: int) -> None:
        self.bound: int = UNBOUNDED
        """Bytes a second."""
        self._kept: deque[tuple[int, int]] = deque()
        """(start in ms, bytes), the oldest first."""
        self._total = 0
        self._samples = samples
        self._sample_ms = sample_ms
        self._lasts_ms = samples * sample_ms

    @property
    def is_used(self) -> bool:
        """There is a bound, or something was counted."""
        return self.bound != UNBOUNDED or bool(self._kept)

    def record(self, size: int, now_ms: int) -> None:
        """So many bytes went."""
        kept = self._kept
        self._forget(now_ms)
        if kept and now_ms - kept[-1][0] < self._sample_ms:
            start, before = kept.pop()
            kept.append((start, before + size))
        else:
            kept.append((now_ms, size))
        self._total += size

    def rate(self, now_ms: int) -> float:
        """Bytes a second; a beginning counts as one whole sample."""
        self._forget(now_ms)
        if not self._kept:
            return 0.0
        return self._total * 1_000 / max(now_ms - self._kept[0][0], self._sample_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whoever is behind must wait."""
        return self.bound != UNBOUNDED and self.rate(now_ms) > self.bound

    def acceptable_at_ms(self, now_ms: int, *, latest_ms: int) -> int:
        """When it will not be exceeded any more if nothing is counted until then; a time after now, and at most `latest_ms`."""
        if not self._kept or self.bound <= 0:
            return latest_ms
        return max(now_ms + 1, min(latest_ms, self._kept[0][0] + -(-self._total * 1_000 // self.bound)))

    def _forget(self, now_ms: int) -> None:
        kept = self._kept
        while kept and (now_ms - kept[0][0] >= self._lasts_ms or len(kept) > self._samples):
            self._total -= kept.popleft()[1]


def lists_replica(listed: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether a topic's `...replication.throttled.replicas` has this replica: `*` has all."""
    return bool(listed) and (listed == ("*",) or f"{partition}:{broker_id}" in listed)
