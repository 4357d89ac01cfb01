"""How much one connection may ask for in one turn of the event loop, so that many that never stop asking leave the others their time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.010
"""After so long, all who have many requests at once are given the least until the turn ends: of the 50 ms that nobody may wait for others, a fifth."""
MOST_FRAMES: Final = 32
"""A produce of a new producer takes 0.1 ms, several times that on a slow machine, and nobody looks at the clock before so many are done."""
FEW_FRAMES: Final = 4
"""The share in a large crowd, while there is time."""
LEAST_FRAMES: Final = 1
MANY_FRAMES: Final = 16
"""Who has so many requests at once is one of the crowd, however small they are."""
MOST_BYTES: Final = 256 << 10
"""The most that is read before the size of a frame is known: with what the kernel touches beside it, this stays in a core's own cache."""
FEW_BYTES: Final = 16 << 10
LEAST_BYTES: Final = 4 << 10
MUCH_BYTES: Final = 32 << 10
"""Who has so much to say at once is one of the crowd."""
_FULL_SHARES: Final = 4
"""So many of them may take the most; more share out as much."""


class TurnShares:
    """The share of one connection in a turn: `frames` that are delivered, `read_bytes` that are read at once.

    It shrinks with the number of connections of which `much_bytes` or more were read or `many_frames` delivered, for those who come later in that turn; for all
    in the next one; to the least when these have had `TURN_S` of it, by the `clock` in seconds; and grows again with the next turn in which there are fewer.
    Nothing is done in turns without any.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.frames = MOST_FRAMES
        self.many_frames = MANY_FRAMES
        self.read_bytes = MOST_BYTES
        self.much_bytes = MUCH_BYTES
        self.is_whole = True
        self._clock = clock
        self._many = 0
        self._many_before = 0
        self._ends_at = 0.0

    def took_much(self, soon: Callable[[Callable[[], None]], None]) -> bool:
        """Whether a connection of which so much was read, or to which so many frames were delivered, must leave the rest of the turn to others.

        `soon` calls back in the loop's next turn.
        """
        now = self._clock()
        if not self._many:
            soon(self._next_turn)
            self._ends_at = now + TURN_S
        self._many += 1
        if now >= self._ends_at:
            self.is_whole = False
            self._limit(LEAST_FRAMES, LEAST_BYTES)
        elif self._many > self._many_before:
            self._share_out(self._many)
        return not self.is_whole

    def _next_turn(self) -> None:
        self._many_before, self._many = self._many, 0
        self._share_out(self._many_before)

    def _share_out(self, many: int) -> None:
        parts = max(1.0, many / _FULL_SHARES)
        self.is_whole = many <= _FULL_SHARES
        self._limit(max(FEW_FRAMES, int(MOST_FRAMES / parts)), max(FEW_BYTES, int(MOST_BYTES / parts)))

    def _limit(self, frames: int, read_bytes: int) -> None:
        self.frames = frames
        self.many_frames = min(MANY_FRAMES, frames)
        self.read_bytes = read_bytes
        self.much_bytes = min(MUCH_BYTES, read_bytes)
