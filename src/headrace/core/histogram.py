"""Histograms of times, or of anything that is counted in steps: plain counters that a machine keeps and others read."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUNDS_FINE_MS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""Upper bounds of the buckets, inclusive; the last bucket has none."""


class Histogram:
    """Counts of times in ms, their sum and the longest; with other `bounds`, of anything that is counted in such steps."""

    __slots__ = ("bounds", "buckets", "count", "highest", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS_MS) -> None:
        """`bounds` ascend; they are the upper bounds of the buckets, inclusive, and the last bucket has none."""
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0.0
        self.highest = 0.0

    def add(self, ms: float, weight: int = 1) -> None:
        """One more time, which stands for `weight` times."""
        self.buckets[bisect_left(self.bounds, ms)] += weight
        self.count += weight
        self.total += weight * ms
        if ms > self.highest:
            self.highest = ms

    def quantile(self, share: float) -> float:
        """The bound below which this share (0..1) of the times lie; the longest when they lie past the last bound."""
        wanted, seen = share * self.count, 0
        for bound, count in zip(self.bounds, self.buckets, strict=False):
            seen += count
            if seen >= wanted:
                return min(float(bound), self.highest)
        return self.highest


def merged(parts: Sequence[Histogram]) -> Histogram:
    """All of them together; they have the same bounds."""
    total = Histogram(parts[0].bounds) if parts else Histogram()
    for each in parts:
        total.buckets = [one + other for one, other in zip(total.buckets, each.buckets, strict=True)]
        total.count += each.count
        total.total += each.total
        total.highest = max(total.highest, each.highest)
    return total


class RecentHistogram(Histogram):
    """A histogram that also tells the highest of the present window and of the one before. Its reader turns the windows."""

    __slots__ = ("_before", "_now")

    def __init__(self, bounds: Sequence[float] = BOUNDS_FINE_MS) -> None:
        super().__init__(bounds)
        self._now = self._before = 0.0

    def add(self, ms: float, weight: int = 1) -> None:
        """One more."""
        super().add(ms, weight)
        self._now = max(self._now, ms)

    @property
    def recent_highest(self) -> float:
        """The highest of the last one or two windows, 0 when there was none."""
        return max(self._now, self._before)

    def turn(self) -> None:
        """A new window begins."""
        self._before, self._now = self._now, 0.0
