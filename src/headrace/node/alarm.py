"""The alarm of a node: the earliest time for which any of its parts waits.

The driver sleeps until then. Parts that begin to wait say so: `by` where the time is at hand, `changed` where it would have to be asked
for; so a node with nothing to do sleeps, and one that is busy is not asked more often than every `GRAIN_MS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

GRAIN_MS: Final = 10
"""What waits for time may wait so much longer, on a busy node."""
NEVER_MS: Final = 1 << 62


class Alarm:
    """The next wake-up of one node. `plan` is the driver's: told each time that comes before the one it knows.

    The driver calls `rest` to begin and `ring` when the time has come. `at_ms` is the time that was planned, 0 while the node is awake.
    """

    __slots__ = ("_looked_ms", "_next_deadline_ms", "_now_ms", "at_ms", "plan")

    def __init__(self, *, now_ms: Callable[[], int], next_deadline_ms: Callable[[], int | None]) -> None:
        self._now_ms = now_ms
        self._next_deadline_ms = next_deadline_ms
        self._looked_ms = -GRAIN_MS
        self.at_ms = NEVER_MS
        self.plan: Callable[[int], None] = _nobody

    def by(self, at_ms: int) -> None:
        """Somebody waits for `at_ms`."""
        if at_ms < self.at_ms:
            self.at_ms = at_ms
            self.plan(at_ms)

    def changed(self) -> None:
        """Somebody may wait for an earlier time than before: look, or soon if there was a look just now."""
        if not self.at_ms:
            return
        now_ms = self._now_ms()
        if now_ms < self._looked_ms + GRAIN_MS:
            self.by(self._looked_ms + GRAIN_MS)
            return
        self._looked_ms = now_ms
        due_ms = self._next_deadline_ms()
        if due_ms is not None:
            self.by(due_ms)

    def ring(self, tick: Callable[[], None]) -> None:
        """The time has come: `tick` does what is due. Deadlines that come of it count at its end."""
        self.at_ms = 0
        try:
            tick()
        finally:
            self.rest()

    def rest(self) -> None:
        """Sleep until the earliest deadline."""
        self.at_ms = NEVER_MS
        due_ms = self._next_deadline_ms()
        if due_ms is not None:
            self.by(due_ms)

    def covers(self, due_ms: int | None, now_ms: int) -> bool:
        """The driver will wake the node for what is due then, `GRAIN_MS` late at most. For those who check that nobody waits in vain."""
        return due_ms is None or self.at_ms <= max(due_ms, now_ms + GRAIN_MS)


def _nobody(_: int) -> None:
    """No driver sleeps; for nodes that are ticked by hand."""
