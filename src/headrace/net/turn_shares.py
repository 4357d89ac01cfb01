"""How much one connection may ask for in one turn of the event loop, so that many that never stop asking leave the others their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_FRAMES: Final = 256
"""A produce of a new producer takes 0.1 ms: so many of them are half of the 50 ms that nobody may wait for another connection."""
LEAST_FRAMES: Final = 4
MANY_FRAMES: Final = 16
"""Who has so many requests at once is one of the crowd, however small they are."""
TURN_FRAMES: Final = 1024
"""So many are delivered in one turn to all who have many at once, and the least to those who come when they are used up."""
MOST_BYTES: Final = 256 << 10
"""The most that is read before the size of a frame is known: with what the kernel touches beside it, this stays in a core's own cache."""
LEAST_BYTES: Final = 16 << 10
MUCH_BYTES: Final = 32 << 10
"""Who has so much to say at once is one of the crowd."""
_FULL_SHARES: Final = 4
"""So many of them may take the most; more share out as much."""


class TurnShares:
    """The share of one connection in a turn: `frames` that are delivered, `read_bytes` that are read at once.

    It shrinks with the number of connections of which `much_bytes` or more were read or `many_frames` delivered, and with what these had, for those who come later in
    that turn; for all in the next one; and grows again with the next turn in which there are fewer. Nothing is done in turns without any.
    """

    def __init__(self) -> None:
        self.frames = MOST_FRAMES
        self.many_frames = MANY_FRAMES
        self.read_bytes = MOST_BYTES
        self.much_bytes = MUCH_BYTES
        self.is_whole = True
        self._many = 0
        self._many_before = 0
        self._left = TURN_FRAMES

    def took_much(self, frames: int, soon: Callable[[Callable[[], None]], None]) -> bool:
        """Whether a connection of which so much was read, or to which so many `frames` were delivered, must leave the rest of the turn to others.

        `soon` calls back in the loop's next turn.
        """
        if not self._many:
            soon(self._next_turn)
        self._many += 1
        self._left -= frames
        if self._many > self._many_before:
            self._share_out(self._many)
        self._limit(min(self.frames, self._left // 2), min(self.read_bytes, MOST_BYTES * self._left // TURN_FRAMES))
        return not self.is_whole

    def _next_turn(self) -> None:
        self._many_before, self._many, self._left = self._many, 0, TURN_FRAMES
        self._share_out(self._many_before)

    def _share_out(self, many: int) -> None:
        parts = max(1.0, many / _FULL_SHARES)
        self.is_whole = many <= _FULL_SHARES
        self._limit(int(MOST_FRAMES / parts), int(MOST_BYTES / parts))

    def _limit(self, frames: int, read_bytes: int) -> None:
        self.frames = max(LEAST_FRAMES, frames)
        self.many_frames = min(MANY_FRAMES, self.frames)
        self.read_bytes = max(LEAST_BYTES, read_bytes)
        self.much_bytes = min(MUCH_BYTES, self.read_bytes)
