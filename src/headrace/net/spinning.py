"""When does the loop keep looking instead of going to sleep? While requests follow each other closely.

A process that sleeps between two requests pays for being woken, tens of microseconds on a virtual machine: as much as the request itself.
So after a request that came soon after the last one, the loop stays awake for a little longer than such a gap. A node without that
kind of traffic never spins, and one with it spins at most `SPIN_S` beyond each request.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

SPIN_S = 0.000_250
"""How long the loop stays awake after a request, and how close requests must follow each other for that."""
STREAK = 16
"""So many requests in a row must have followed closely before the loop stays awake at all."""


class Spinner:
    """Keeps the event loop awake between requests that follow each other closely. Shared by the listeners of a node."""

    __slots__ = ("_call_soon", "_clock", "_is_awake", "_last", "_streak")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._call_soon: Callable[[Callable[[], None]], object] | None = None
        self._is_awake = False
        self._last = 0.0
        self._streak = 0

    def attach(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Use the loop's `call_soon`."""
        self._call_soon = call_soon

    def served(self) -> None:
        """A request was answered just now."""
        now = self._clock()
        if now - self._last > SPIN_S:
            self._streak = 0
        elif self._streak < STREAK:
            self._streak += 1
        elif not self._is_awake and self._call_soon is not None:
            self._is_awake = True
            self._call_soon(self._stay_awake)
        self._last = now

    def _stay_awake(self) -> None:
        if self._clock() - self._last < SPIN_S and self._call_soon is not None:
            self._call_soon(self._stay_awake)
        else:
            self._is_awake = False
