"""What happened lately, when counters only tell what happened since the start.

A reader's memory: now and then it copies counters that it is given, and the difference to an older copy is the recent past. The counters
themselves stay plain. Averages, rates and the highest value are of the last 30 to 60 s, as Kafka's are; quantiles of the last five minutes, about as
far as Kafka's decaying ones look back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headrace.core.histogram import Histogram

SAMPLE_S: Final = 30.0
"""How often copies are made."""
KEPT: Final = 10
QUANTILES: Final[Mapping[str, float]] = {
    "0.50": 0.50,
    "0.75": 0.75,
    "0.95": 0.95,
    "0.98": 0.98,
    "0.99": 0.99,
    "0.999": 0.999,
}
"""By their labels: Kafka's 50thPercentile, 75thPercentile and so on."""


class Copy(NamedTuple):
    """All counters at one moment."""

    at_s: float
    histograms: Mapping[str, tuple[Sequence[int], int, float]]
    counters: Mapping[str, float]


class Window:
    """Copies of counters, the oldest first. Histograms and counters go by names that the reader chooses; one that was not there yet counts as zero."""

    def __init__(self, now_s: float) -> None:
        self._copies: deque[Copy] = deque([Copy(now_s, {}, {})], maxlen=KEPT)

    def take(self, now_s: float, histograms: Mapping[str, Histogram], counters: Mapping[str, float]) -> None:
        """Remember how things stand. Cost: the histograms' buckets."""
        kept = {name: (tuple(each.buckets), each.count, each.total) for name, each in histograms.items()}
        self._copies.append(Copy(now_s, kept, dict(counters)))

    @property
    def _lately(self) -> Copy:
        """The copy before the latest: 30 to 60 s old, once there are two."""
        return self._copies[max(len(self._copies) - 2, 0)]

    def quantiles(self, name: str, histogram: Histogram) -> dict[str, float]:
        """Of the last minutes, by the labels of `QUANTILES`; 0 when nothing happened, as Kafka has it."""
        before = self._copies[0].histograms.get(name)
        counts = histogram.buckets
        if before is not None:
            counts = [now - then for now, then in zip(counts, before[0], strict=True)]
        total = sum(counts)
        return {label: _quantile(histogram, counts, share * total) for label, share in QUANTILES.items()}

    def average(self, name: str, histogram: Histogram) -> float:
        """Of the last 30 to 60 s; NaN when nothing happened, as Kafka has it."""
        _, count, total = self._lately.histograms.get(name, ((), 0, 0.0))
        happened = histogram.count - count
        return (histogram.total - total) / happened if happened else math.nan

    def has_happened(self, name: str, histogram: Histogram) -> bool:
        """Whether there was anything in the last 30 to 60 s."""
        return histogram.count > self._lately.histograms.get(name, ((), 0, 0.0))[1]

    def rate(self, name: str, value: float, now_s: float) -> float:
        """A counter's growth each second; what is younger than a copy counts as spread over the time between two, as Kafka has it."""
        copy = self._lately
        return (value - copy.counters.get(name, 0.0)) / max(now_s - copy.at_s, SAMPLE_S)

    def idle_ratio(self, name: str, busy_s: float, now_s: float) -> float:
        """Which part of the last 30 to 60 s was not spent at work, 0..1."""
        copy = self._lately
        elapsed = now_s - copy.at_s
        if elapsed <= 0:
            return 1.0
        return min(max(1.0 - (busy_s - copy.counters.get(name, 0.0)) / elapsed, 0.0), 1.0)


def _quantile(histogram: Histogram, counts: Sequence[int], wanted: float) -> float:
    """Where the `wanted`-th value lies: spread evenly within its bucket, and never past the highest that there was."""
    if not wanted:
        return 0.0
    seen, lower = 0, 0.0
    for bound, count in zip(histogram.bounds, counts, strict=False):
        if count and seen + count >= wanted:
            return min(lower + (bound - lower) * (wanted - seen) / count, histogram.highest)
        seen += count
        lower = bound
    return histogram.highest
