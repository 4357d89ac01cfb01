"""Figures of a measured load: how many records, how fast, how long each took."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

MEGABYTE = 1024.0 * 1024.0
PERCENTILES = (0.5, 0.95, 0.99, 0.999)


class Latencies:
    """Counts records by their latency in whole milliseconds, from `begin` on."""

    def __init__(self) -> None:
        self._by_ms: Counter[int] = Counter()
        self._began: float | None = None
        self.count = 0
        self.size = 0.0

    def begin(self) -> None:
        """The time starts, if it has not."""
        if self._began is None:
            self._began = time.perf_counter()

    def add(self, latencies_ms: Iterable[int], size: float) -> None:
        """Records of `size` bytes in all."""
        every = list(latencies_ms)
        self._by_ms.update(every)
        self.count += len(every)
        self.size += size

    @property
    def seconds(self) -> float:
        """Time since `begin`; never 0."""
        return max(time.perf_counter() - (self._began or 0.0), 1e-6)

    def average_ms(self) -> float:
        """Mean latency; 0 when nothing was counted."""
        return sum(ms * count for ms, count in self._by_ms.items()) / self.count if self.count else 0.0

    def percentile_ms(self, fraction: float) -> int:
        """The latency below which `fraction` of the records stay."""
        rank, seen = int(fraction * self.count), 0
        for ms in sorted(self._by_ms):
            seen += self._by_ms[ms]
            if seen > rank:
                return ms
        return max(self._by_ms, default=0)

    def _head(self, seconds: float, digits: str, kind: str = "") -> str:
        return f"{self.count}{kind} records sent, {self.count / seconds:{digits}} records/sec ({self.size / seconds / MEGABYTE:.2f} MB/sec)"

    def progress_line(self) -> str:
        """Kafka's line of an interval."""
        most = max(self._by_ms, default=0)
        return f"{self._head(self.seconds, '.1f')}, {self.average_ms():.1f} ms avg latency, {float(most):.1f} ms max latency."

    def total_line(self, kind: str = "") -> str:
        """Kafka's line at the end."""
        p50, p95, p99, p999 = (self.percentile_ms(each) for each in PERCENTILES)
        most = float(max(self._by_ms, default=0))
        return (
            f"{self._head(self.seconds, '.6f', kind)}, {self.average_ms():.2f} ms avg latency, {most:.2f} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )

    def plain(self) -> dict[str, Any]:
        """The same for JSON."""
        seconds = self.seconds
        return {
            "records": self.count,
            "recordsPerSecond": self.count / seconds,
            "megabytesPerSecond": self.size / seconds / MEGABYTE,
            "averageMs": self.average_ms(),
            "maxMs": max(self._by_ms, default=0),
            **{f"p{100 * each:g}Ms": self.percentile_ms(each) for each in PERCENTILES},
        }
