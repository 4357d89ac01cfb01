"""The time of the world and of each node, and what happens next.

The world's time is a whole number of microseconds. A node's own clocks run beside it: its monotonic clock may drift (S42), its wall clock
may also jump (S40, S41). Things that are to happen stand in one heap; two at the same time happen in the order in which they were put there.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

WALL_START_MS: Final = 1_750_000_000_000
"""Wall clock time of every node at the start of a run: ms since 1970."""

_MILLION: Final = 1_000_000


class Schedule:
    """The heap of things to come."""

    __slots__ = ("_heap", "_number", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[[Any, Any], None], Any, Any]] = []
        self._number = 0

    def at(self, at_us: int, do: Callable[[Any, Any], None], one: Any = None, two: Any = None) -> None:
        """Have `do(one, two)` happen at `at_us`, at once when that is past."""
        self._number += 1
        heappush(self._heap, (at_us if at_us > self.now_us else self.now_us, self._number, do, one, two))

    def after(self, wait_us: int, do: Callable[[Any, Any], None], one: Any = None, two: Any = None) -> None:
        """Have it happen `wait_us` from now."""
        self._number += 1
        heappush(self._heap, (self.now_us + wait_us, self._number, do, one, two))

    def run_before(self, end_us: int) -> bool:
        """Let the next thing happen; False when there is none before `end_us`, which is then the time."""
        heap = self._heap
        if not heap or heap[0][0] >= end_us:
            self.now_us = end_us
            return False
        at_us, _, do, one, two = heappop(heap)
        self.now_us = at_us
        do(one, two)
        return True


class NodeClock:
    """The clocks of one node; implements `broker.ports.Clock`. `rate_ppm` is its speed: a million is true time."""

    __slots__ = ("_base_us", "_latest_ms", "_schedule", "_since_us", "rate_ppm", "wall_offset_ms")

    def __init__(self, schedule: Schedule, *, rate_ppm: int = _MILLION, base_ms: int = 0) -> None:
        self._schedule = schedule
        self._base_us = base_ms * 1_000
        self._since_us = 0
        self.rate_ppm = rate_ppm
        self.wall_offset_ms = 0
        self._latest_ms = 0

    def now_us(self) -> int:
        """The monotonic clock in microseconds."""
        return self._base_us + (self._schedule.now_us - self._since_us) * self.rate_ppm // _MILLION

    def now_ms(self) -> int:
        """The monotonic clock in milliseconds."""
        return (self._base_us + (self._schedule.now_us - self._since_us) * self.rate_ppm // _MILLION) // 1_000

    def wall_ms(self) -> int:
        """The wall clock: ms since 1970."""
        return WALL_START_MS + self.now_us() // 1_000 + self.wall_offset_ms

    def latest_wall_ms(self) -> int:
        """The latest time that the wall clock ever showed: ms since 1970."""
        return max(self._latest_ms, self.wall_ms())

    def set_rate(self, rate_ppm: int) -> None:
        """Run at another speed from now on; the clock does not jump."""
        self._base_us = self.now_us()
        self._since_us = self._schedule.now_us
        self.rate_ppm = rate_ppm

    def jump_wall(self, by_ms: int) -> None:
        """The wall clock is set forward, or back; the monotonic one goes on."""
        self._latest_ms = self.latest_wall_ms()
        self.wall_offset_ms += by_ms

    def world_us(self, local_ms: int) -> int:
        """World time at which the monotonic clock shows `local_ms`."""
        left = local_ms * 1_000 - self._base_us
        return self._since_us - (-left * _MILLION // self.rate_ppm)
