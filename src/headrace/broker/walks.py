"""The place where records of many batches, or of very large ones, are looked at without holding up others.

What is small is done in place. What opens to more, or takes more than a few turns, leaves the event loop: batches up to 8 MiB in one lane, larger ones, one at a time, in another,
so that memory for one of them is all that is ever needed, and small ones do not wait for it. Of searches that leave the loop, each of which keeps a
batch, some are under way at a time, whatever number of connections ask; the others keep nothing, and begin anew in their turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from headrace.core.values import value_class
from headrace.records.walk import Search, Walk

SMALL_BYTES: Final = 8 * 1024 * 1024
EAGER_TURNS: Final = 50
"""Turns that a thread takes without rests: about 50 ms."""
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of requests that may be kept for searches under way."""
LEAST_WAITING_BYTES: Final = 64 * 1024
"""What a batch counts at least: the work for it may be much more than its bytes, and what others want waits in the same lane."""
MOST_SEARCHES: Final = 8
"""So many searches by time are in the lanes: a produce that must be opened, or a group that is loaded, waits behind them."""
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


@value_class(kw_only=False)
class _Waiting:
    """A search that is to begin in its turn, unless nobody wants it by then."""

    make: Callable[[], Search[Any]]
    done: Callable[[Any], None]
    is_wanted: Callable[[], bool]


class Walks:
    """Searches under way. `begin` has a `WalkJob` done."""

    def __init__(self) -> None:
        self.begin: Callable[[WalkJob], None] = _in_place
        self.waiting_bytes = 0
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._searches = 0
        self._is_beginning = False

    def in_turn(
        self,
        make: Callable[[], Search[R]],
        done: Callable[[R], None],
        *,
        asker: str,
        is_wanted: Callable[[], bool],
        in_place: bool = True,
    ) -> None:
        """As `follow`; of those that are not done at once MOST_SEARCHES are under way, one of each asker in turn."""
        if in_place:
            found = _quickly(make())
            if found:
                done(found[0])
                return
        self._waiting.setdefault(asker, deque()).append(_Waiting(make, done, is_wanted))
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        if self._is_beginning:
            return  # a search that ended at once: whoever began it goes on
        self._is_beginning = True
        try:
            while self._waiting and self._searches < MOST_SEARCHES:
                asker, waiting = next(iter(self._waiting.items()))
                del self._waiting[asker]
                one = waiting.popleft()
                if waiting:
                    self._waiting[asker] = waiting  # behind the other askers
                if one.is_wanted():
                    self._searches += 1
                    self.follow(one.make(), partial(self._ended, one), in_place=False)
        finally:
            self._is_beginning = False

    def _ended(self, one: _Waiting, found: Any) -> None:
        self._searches -= 1
        one.done(found)
        self._begin_waiting()

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


def _quickly(search: Search[R]) -> list[R]:
    """What is found without leaving the event loop; empty if that takes more, and then nothing is kept of it."""
    try:
        while (walk := next(search)) is not None and walk.begin():
            pass
    except StopIteration as ended:
        return [ended.value]
    search.close()
    return []


def _turns(walk: Walk[Any]) -> Iterator[None]:
    while not walk.turn():
        yield


def _in_place(job: WalkJob) -> None:
    """Without a driver there is no other thread."""
    job.run(iter)
    job.finish()
