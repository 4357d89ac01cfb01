"""Rests of long work in a thread, which leave the interpreter to the event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_T = TypeVar("_T")

RESTS: Final = 2.0
"""Seconds of rest for each second of work: the loop has the interpreter alone for two thirds of the time, and half of it in the other third."""
LONGEST_REST_S: Final = 0.1


class Pace:
    """Lets a thread rest between pieces of its work, until there is a hurry.

    For a snapshot of much metadata, which takes seconds of pure Python: without rests the loop runs at half its speed beside it. Any
    number of threads may use one; `hurry` may be called in any other.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, wait: Callable[[float], bool] | None = None
    ) -> None:
        """`wait` rests for so many seconds, or until there is a hurry, and says whether there is; for tests."""
        self._is_hurried = threading.Event()
        self._clock = clock
        self._wait = wait or self._is_hurried.wait

    def __call__(self, items: Iterable[_T]) -> Iterator[_T]:
        """The same items; before each is given out there is a rest, `RESTS` times as long as it took to make, but not over `LONGEST_REST_S`."""
        began = self._clock()
        for item in items:
            self._wait(min((self._clock() - began) * RESTS, LONGEST_REST_S))
            yield item
            began = self._clock()

    def hurry(self) -> None:
        """No more rests, and the one that somebody takes ends."""
        self._is_hurried.set()
