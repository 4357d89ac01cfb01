"""The timer that wakes a node when its earliest deadline has come; in between it sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.node.alarm import Alarm


class NodeTimer:
    """Sleeps until `alarm.at_ms`, then calls `ring`. On the running event loop, from `begin` to `end`."""

    def __init__(self, alarm: Alarm, *, now_ms: Callable[[], int], ring: Callable[[], None]) -> None:
        self._alarm = alarm
        self._now_ms = now_ms
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._is_on = False

    def begin(self) -> None:
        """Wake the node from now on."""
        self._is_on = True
        self._alarm.plan = self._plan
        self._alarm.rest()

    def end(self) -> None:
        """Never again."""
        self._is_on = False
        if self._handle is not None:
            self._handle.cancel()

    def _plan(self, at_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._is_on:
            wait_s = max(at_ms - self._now_ms(), 0) / 1000
            self._handle = asyncio.get_running_loop().call_later(wait_s, self._wake)

    def _wake(self) -> None:
        self._handle = None
        self._alarm.ring(self._ring)
