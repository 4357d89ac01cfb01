"""How many segments the logs of a process may begin."""

from __future__ import annotations

from typing import Final

MOST_AT_ONCE: Final = 16
"""A roll makes and writes files, half a millisecond of the event loop."""
A_SECOND: Final = 100


class RollAllowance:
    """Rolls that are left to the logs of one store: `MOST_AT_ONCE`, and `A_SECOND` new ones each second.

    What topics ask for may be a segment for each batch (`internal.segment.bytes`, `segment.ms`, `segment.index.bytes`): files, descriptors and turns of
    the loop without end. A log that has to wait goes on in the segment that it has, which becomes longer than its settings say.
    """

    __slots__ = ("_at_ms", "_left", "postponed")

    def __init__(self) -> None:
        self._left = float(MOST_AT_ONCE)
        self._at_ms = 0
        self.postponed = 0
        """How often a log was told to wait."""

    def take(self, now_ms: int) -> bool:
        """Whether a segment may be begun now, by the wall clock."""
        gone_ms = max(now_ms - self._at_ms, 0)
        self._at_ms = now_ms
        self._left = min(self._left + gone_ms * A_SECOND / 1_000, MOST_AT_ONCE)
        if self._left < 1:
            self.postponed += 1
            return False
        self._left -= 1
        return True
