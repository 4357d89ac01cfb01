"""Busy polling: the loop keeps looking for requests, while they follow each other closely, instead of going to sleep.

A process that sleeps between two requests pays for being woken, tens of microseconds on a virtual machine: as much as the request itself.
So after a request that came soon after the last one, the loop stays awake for a little longer than such a gap. A node without that
kind of traffic never polls, and one with it polls at most `POLL_S` beyond each request. Where others want the core, for instance because there are
more loops than cores, what polling takes is taken from them: a loop then waits for its core although it has something to do, and the kernel counts that time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter

POLL_S = 0.000_250
"""How long the loop stays awake after a request, and how close requests must follow each other for that."""
STREAK = 16
"""So many requests in a row must have followed closely before the loop stays awake at all."""
CHECK_S = 0.1
"""How often it is looked whether others want the core."""
SHARED_S = 0.02
"""A loop that waited for its core for so long of `CHECK_S` shares it: with one other loop it is up to a half, on a quiet machine a hundredth."""
REST_S = 1.0
"""How long a loop that shares its core sleeps between requests before it tries again: what it takes from others is a tenth."""


def waited_s() -> float:
    """How long this thread has waited for a core so far, though it could have run; 0 where the system does not say."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def usable_cores() -> int:
    """How many cores this process may run on."""
    asked = getattr(os, "sched_getaffinity", None)
    return len(asked(0)) if asked is not None else os.cpu_count() or 1


class BusyPoller:
    """Keeps the event loop awake between requests that follow each other closely. Shared by the listeners of a node.

    `mode` is `headrace.network.busy.poll`: "on", "off", or "auto", which is off on a single core and while others want the core.
    """

    __slots__ = (
        "_call_soon",
        "_checked",
        "_clock",
        "_is_auto",
        "_is_awake",
        "_is_off",
        "_last",
        "_rests_until",
        "_streak",
        "_waited",
        "_waited_s",
    )

    def __init__(
        self,
        mode: str = "on",
        *,
        clock: Callable[[], float] = perf_counter,
        waited_s: Callable[[], float] = waited_s,
        cores: int | None = None,
    ) -> None:
        self._is_auto = mode == "auto"
        self._is_off = mode == "off" or (self._is_auto and (usable_cores() if cores is None else cores) < 2)
        self._clock = clock
        self._waited_s = waited_s
        self._call_soon: Callable[[Callable[[], None]], object] | None = None
        self._is_awake = False
        self._last = 0.0
        self._streak = 0
        self._checked = 0.0
        self._waited = 0.0
        self._rests_until = 0.0

    def attach(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Use the loop's `call_soon`."""
        self._call_soon = call_soon

    def served(self) -> None:
        """A request was answered just now."""
        if self._is_off:
            return
        now = self._clock()
        if now - self._last > POLL_S:
            self._streak = 0
        elif self._streak < STREAK:
            self._streak += 1
        elif not self._is_awake and self._call_soon is not None and not self._must_rest(now):
            self._is_awake = True
            self._call_soon(self._stay_awake)
        self._last = now

    def _stay_awake(self) -> None:
        now = self._clock()
        if now - self._last < POLL_S and self._call_soon is not None and not self._must_rest(now):
            self._call_soon(self._stay_awake)
        else:
            self._is_awake = False

    def _must_rest(self, now: float) -> bool:
        """Whether others want the core: looked at now and then, while requests follow closely."""
        if not self._is_auto:
            return False
        if now < self._rests_until:
            return True
        passed = now - self._checked
        if passed < CHECK_S:
            return False
        before, self._waited = self._waited, self._waited_s()
        self._checked = now
        if passed < 2 * CHECK_S and self._waited - before > SHARED_S:
            self._rests_until = now + REST_S
            return True
        return False
