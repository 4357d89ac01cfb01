"""Those who wait for something of one partition, each kind by what it waits for, so that nobody is looked at because something else moved.

A hot file: an append comes by here, nearly always to find that nobody waits.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

_MANY_GIVEN_UP = 64


class OffsetWait:
    """A write that ends at `end_offset` (exclusive). `told` is asked when that is reached or the leader changed; it says whether the wait is over."""

    __slots__ = ("end_offset", "told")

    def __init__(self, end_offset: int, told: Callable[[], bool] | None) -> None:
        self.end_offset = end_offset
        self.told = told

    def __lt__(self, other: OffsetWait) -> bool:
        return self.end_offset < other.end_offset


class OffsetQueue:
    """Writes that wait until an offset is reached, the lowest first: only those that it was reached for are looked at."""

    __slots__ = ("_given_up", "_waits")

    def __init__(self) -> None:
        self._waits: deque[OffsetWait] = deque()
        self._given_up = 0

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, end_offset: int, told: Callable[[], bool]) -> OffsetWait:
        """Ask `told` when `end_offset` is reached."""
        wait = OffsetWait(end_offset, told)
        waits = self._waits
        if waits and waits[-1].end_offset > end_offset:
            insort(waits, wait)  # a repeated batch: its first copy is there already
        else:
            waits.append(wait)
        return wait

    def give_up(self, wait: OffsetWait) -> None:
        """Nobody wants to know of this write any more."""
        if wait.told is not None:
            wait.told = None
            self._given_up += 1
            if self._given_up > _MANY_GIVEN_UP and self._given_up > len(self._waits) // 2:
                self._waits = deque(each for each in self._waits if each.told is not None)
                self._given_up = 0

    def reached(self, offset: int) -> None:
        """Everything below `offset` is there."""
        while self._waits and self._waits[0].end_offset <= offset:
            self._tell(self._waits.popleft())

    def look(self) -> None:
        """Something else happened that may end each wait."""
        waits, self._waits = self._waits, deque()
        for wait in waits:
            if not self._tell(wait):
                insort(self._waits, wait)

    def _tell(self, wait: OffsetWait) -> bool:
        told, wait.told = wait.told, None
        if told is None:
            self._given_up -= 1
            return True
        if told():
            return True
        wait.told = told
        return False


class Reader(Protocol):
    """A partition of somebody's fetch. It is told once, and subscribes again when it wants to hear more."""

    def moved(self) -> None:
        """There may be more to read here, or something else to tell."""


class PartitionWaiters:
    """Who waits for a partition: writes with acks=all for the high watermark, others for the sync of their records (`flush.messages`), both in the
    order of their offsets; consumers for the high watermark; followers for that or the log end.

    Kept by the hosted partition over changes of its leader; told by `PartitionLeader` and by whoever changes the partition's role.
    """

    __slots__ = ("committed", "followers", "readers", "synced")

    def __init__(self) -> None:
        self.committed: OffsetQueue | None = None
        self.synced: OffsetQueue | None = None
        self.readers: dict[Reader, None] | None = None
        self.followers: dict[Reader, None] | None = None

    def __len__(self) -> int:
        """All that wait."""
        return sum(len(each) for each in (self.committed, self.synced, self.readers, self.followers) if each)

    # --- who waits ---

    def until_committed(self, end_offset: int, told: Callable[[], bool]) -> Callable[[], None]:
        """Ask `told` when the high watermark has reached `end_offset`, and whenever the partition's role changed. Returns how to give up."""
        if self.committed is None:
            self.committed = OffsetQueue()
        return partial(self.committed.give_up, self.committed.add(end_offset, told))

    def until_synced(self, end_offset: int, told: Callable[[], bool]) -> Callable[[], None]:
        """The same for the end of what is synced where acknowledgements wait for that."""
        if self.synced is None:
            self.synced = OffsetQueue()
        return partial(self.synced.give_up, self.synced.add(end_offset, told))

    def subscribe(self, reader: Reader, *, at_log_end: bool) -> None:
        """Tell the reader once: of the high watermark, with `at_log_end` also of the log end, and of the role and the log start in any case."""
        if at_log_end:
            if self.followers is None:
                self.followers = {}
            self.followers[reader] = None
        else:
            if self.readers is None:
                self.readers = {}
            self.readers[reader] = None

    def unsubscribe(self, reader: Reader) -> None:
        """It does not want to hear more."""
        if self.readers is not None:
            self.readers.pop(reader, None)
        if self.followers is not None:
            self.followers.pop(reader, None)

    # --- what moved ---

    def log_end_moved(self) -> None:
        """Records were appended."""
        if self.followers is not None:
            self._tell_followers()

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Records were committed."""
        if self.committed is not None:
            self.committed.reached(high_watermark)
        if self.readers is not None:
            self._tell_readers()
        if self.followers is not None:
            self._tell_followers()

    def acknowledged(self, end_offset: int) -> None:
        """Records were synced that were waited for."""
        if self.synced is not None:
            self.synced.reached(end_offset)

    def log_start_moved(self) -> None:
        """Records were deleted."""
        self._tell_readers()
        self._tell_followers()

    def changed(self) -> None:
        """The leader, its terms, or whether clients are served: everybody looks."""
        for queue in (self.committed, self.synced):
            if queue is not None:
                queue.look()
        self._tell_readers()
        self._tell_followers()

    def _tell_readers(self) -> None:
        readers, self.readers = self.readers, None
        for reader in readers or ():
            reader.moved()

    def _tell_followers(self) -> None:
        readers, self.followers = self.followers, None
        for reader in readers or ():
            reader.moved()
