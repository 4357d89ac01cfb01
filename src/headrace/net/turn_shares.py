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
SOME_FRAMES: Final = 4
"""Who has fewer at once, as nearly every client, costs others about as much as one request does; of all others the time is taken."""
MOST_BYTES: Final = 256 << 10
"""The most that is read before the size of a frame is known: with what the kernel touches beside it, this stays in a core's own cache."""
FEW_BYTES: Final = 16 << 10
LEAST_BYTES: Final = 4 << 10
MUCH_BYTES: Final = 32 << 10
"""Who has so much to say at once is one of the crowd."""
MOST_LARGE_BYTES: Final = 2 << 20
"""The most that is read at once of large requests."""
LEAST_LARGE_BYTES: Final = 64 << 10
Soon = Callable[[Callable[[], None]], None]
Took = Callable[[Soon, object, int], bool]
_FULL_SHARES: Final = 4
"""So many of them may take the most; more share out as much."""


class TurnShares:
    """The share of one connection in a turn: `frames` that are delivered, `read_bytes` that are read at once, `large_bytes` where requests are large.

    It shrinks with the number of connections of which `much_bytes` or more were read or `many_frames` delivered, for those who come later in that turn; for all
    in the next one; to the least when these, and those with `some_frames`, have had `TURN_S` of it, by the `clock` in seconds; and grows again with the next turn
    in which there are fewer. Those who send large requests share out `large_bytes` among them likewise. Nothing is done in turns without any.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.frames = MOST_FRAMES
        self.many_frames = MANY_FRAMES
        self.some_frames = SOME_FRAMES
        self.read_bytes = MOST_BYTES
        self.much_bytes = MUCH_BYTES
        self.large_bytes = MOST_LARGE_BYTES
        self.is_whole = True
        self._clock = clock
        self._many = 0
        self._many_before = 0
        self._large = 0
        self._large_before = 0
        self._latest: object = None
        self._is_begun = self._has_made_room = False
        self._ends_at = 0.0

    def took_much(self, soon: Soon, _who: object, _frames: int) -> bool:
        """Whether a connection of which so much was read, or to which so many frames were delivered, must leave the rest of the turn to others.

        `soon` calls back in the loop's next turn.
        """
        is_over = self.is_over(soon)
        self._many += 1
        if not is_over and self._many > self._many_before:
            self._share_out(self._many)
        return not self.is_whole

    def took_frames(self, soon: Soon, who: object, frames: int) -> bool:
        """The same of one with `some_frames`, where the time is over, or with `many_frames`."""
        return self.took_much(soon, who, frames) if frames >= self.many_frames else self.is_over(soon)

    def took_large(self, soon: Soon, who: object, _frames: int) -> bool:
        """The same of one of which large requests, or a part of one, were read. The loop may read it several times in succession."""
        is_over = self.is_over(soon)
        self._large += who is not self._latest
        self._latest = who
        if not is_over and self._large > self._large_before:
            self._share_out_large(self._large)
        return self.large_bytes < MOST_LARGE_BYTES

    def is_over(self, soon: Soon) -> bool:
        """Whether those who have many requests at once, or large ones, have had the time that they may have of this turn."""
        now = self._clock()
        if not self._is_begun:
            self._is_begun = True
            soon(self._next_turn)
            self._ends_at = now + TURN_S
        elif now >= self._ends_at:
            self.is_whole = False
            self._limit(LEAST_FRAMES, LEAST_BYTES)
            self.large_bytes = LEAST_LARGE_BYTES
            return True
        return False

    def makes_room(self, soon: Soon) -> bool:
        """Whether there is time to get memory for one that lacks room. The first that asks always gets it, or those who have much before it had all turns."""
        if self.is_over(soon) and self._has_made_room:
            return False
        self._has_made_room = True
        return True

    def _next_turn(self) -> None:
        self._many_before, self._many = self._many, 0
        self._large_before, self._large, self._latest = self._large, 0, None
        self._is_begun = self._has_made_room = False
        self._share_out(self._many_before)
        self._share_out_large(self._large_before)

    def _share_out(self, many: int) -> None:
        parts = max(1.0, many / _FULL_SHARES)
        self.is_whole = many <= _FULL_SHARES
        self._limit(max(FEW_FRAMES, int(MOST_FRAMES / parts)), max(FEW_BYTES, int(MOST_BYTES / parts)))

    def _share_out_large(self, many: int) -> None:
        parts = max(1.0, many / _FULL_SHARES)
        self.large_bytes = max(LEAST_LARGE_BYTES, int(MOST_LARGE_BYTES / parts))

    def _limit(self, frames: int, read_bytes: int) -> None:
        self.frames = frames
        self.many_frames = min(MANY_FRAMES, frames)
        self.some_frames = min(SOME_FRAMES, frames)
        self.read_bytes = read_bytes
        self.much_bytes = min(MUCH_BYTES, read_bytes)
