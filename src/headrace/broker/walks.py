"""The place where records of many batches, or of very large ones, are looked at without holding up others.

What is small is done in place. What opens to more, or takes more than a few turns, leaves the event loop: batches up to 8 MiB in one lane, larger ones, one at a time, in another,
so that memory for one of them is all that is ever needed, and small ones do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from headrace.records.walk import Search, Walk

SMALL_BYTES: Final = 8 * 1024 * 1024
EAGER_TURNS: Final = 50
"""Turns that a thread takes without rests: about 50 ms."""
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of requests that may be kept for searches under way."""
_ALL_BYTES: Final = 1 << 62

R = TypeVar("R")


class WalkJob:
    """One walk for a thread: `run` there, then `finish` where the machine runs. Without a walk it only lets others have their turn."""

    __slots__ = ("_then", "_walk", "_walks", "is_large")

    def __init__(self, walks: Walks, walk: Walk[Any] | None, then: Callable[[], None], *, is_large: bool) -> None:
        self._walks = walks
        self._walk = walk
        self._then = then
        self.is_large = is_large

    def __repr__(self) -> str:
        return f"WalkJob(is_large={self.is_large})"

    def run(self, pace: Callable[[Iterable[None]], Iterable[None]]) -> None:
        """Open the batch and take all turns; those of a long walk at the given pace."""
        walk = self._walk
        if walk is None or not walk.open(_ALL_BYTES if self.is_large else SMALL_BYTES):
            return
        for _ in range(EAGER_TURNS):
            if walk.turn():
                return
        for _ in pace(_turns(walk)):
            pass

    def finish(self) -> None:
        """Go on with what was found out, or with a larger lane."""
        if self._walk is None or self._walk.is_done:
            self._then()
        else:
            self._walks.begin(WalkJob(self._walks, self._walk, self._then, is_large=True))


class Walks:
    """Searches under way. `begin` has a `WalkJob` done."""

    def __init__(self) -> None:
        self.begin: Callable[[WalkJob], None] = _in_place
        self.waiting_bytes = 0

    def follow(self, search: Search[R], done: Callable[[R], None], *, in_place: bool = True) -> None:
        """Do the search, and tell `done` what it found, perhaps at once; with `in_place` False nothing is opened here."""
        found: list[R] = []
        try:
            while True:
                walk = next(search)
                if walk is None or not in_place or not walk.begin():
                    self.begin(WalkJob(self, walk, lambda: self._go_on(search, done), is_large=False))
                    return
        except StopIteration as ended:
            found.append(ended.value)
        done(found[0])

    def _go_on(self, search: Search[R], done: Callable[[R], None]) -> None:
        self.follow(search, done, in_place=False)


def _turns(walk: Walk[Any]) -> Iterator[None]:
    while not walk.turn():
        yield


def _in_place(job: WalkJob) -> None:
    """Without a driver there is no other thread."""
    job.run(iter)
    job.finish()
