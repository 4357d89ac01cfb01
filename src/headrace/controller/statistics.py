"""Times that events of the controller wait, take, and need until they are committed.

Plain counters that the machine keeps and others read (S2-33, S4-58, S4-59, S4-61). Times come from the events; the time an event takes comes
from a stopwatch that is lent, if any.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.core.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_MS: Final = 100.0
"""An event that took longer than this is remembered by its name."""


class SlowEvent(NamedTuple):
    """An event that took long. `ms` by the stopwatch, `now_ms` by the machine's clock."""

    name: str
    ms: float
    now_ms: int


@dataclass(slots=True)
class EventTimes:
    """The times of the events of one name, in ms."""

    queued: Histogram = field(default_factory=Histogram)
    """EventQueueTimeMs: from arrival to start."""
    processed: Histogram = field(default_factory=Histogram)
    """EventQueueProcessingTimeMs."""
    committed: Histogram = field(default_factory=Histogram)
    """ControllerRequestLatency: from arrival to the answer."""


class ControllerStatistics:
    """All counters of one controller machine; they only grow, whoever is active."""

    def __init__(self, stopwatch: Callable[[], float] | None = None) -> None:
        self._stopwatch = stopwatch
        self.by_name: dict[str, EventTimes] = {}
        self.started = 0
        """EventQueueOperationsStartedCount."""
        self.timed_out = 0
        """EventQueueOperationsTimedOutCount: requests that waited past their deadline."""
        self.timed_out_heartbeats = 0
        """TimedOutBrokerHeartbeatCount: heartbeats that waited too long to count for more than a sign of life (S2-30)."""
        self.waiting = 0
        """Slices of work that are due."""
        self.faults = 0
        """MetadataErrorCount: decisions that made no sense, so that this controller gave up."""
        self.fenced_by_timeout = 0
        self.fenced_by_refusal = 0
        self.unclean_elections = 0
        self.preferred_elections = 0
        self.activations = 0
        """NewActiveControllersCount."""
        self.committed = Histogram()
        """commit-latency: from the order to append until the high watermark passed it (S4-62)."""
        self.slow: deque[SlowEvent] = deque(maxlen=50)

    @property
    def latencies(self) -> dict[str, Histogram]:
        """ControllerRequestLatency by the name of the event."""
        return {name: times.committed for name, times in self.by_name.items()}

    def times(self, name: str) -> EventTimes:
        """The times of a name."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = EventTimes()
        return found

    def start(self) -> float:
        """An event begins: what to give to `end`."""
        self.started += 1
        return 0.0 if self._stopwatch is None else self._stopwatch()

    def end(self, name: str, began: float, now_ms: int) -> None:
        """The event is done."""
        if self._stopwatch is None:
            return
        ms = (self._stopwatch() - began) * 1_000
        self.times(name).processed.add(ms)
        if ms > SLOW_MS:
            self.slow.append(SlowEvent(name, ms, now_ms))
