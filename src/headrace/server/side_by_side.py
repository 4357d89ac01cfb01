"""The same done to many things, in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from headrace.log.store_ports import Spread

A = TypeVar("A")
B = TypeVar("B")
_AT_ONCE: Final = 64
"""What is handed to a thread: handing over costs as much as opening a file."""


def side_by_side(threads: int) -> Spread:
    """A `map` that works in so many threads where there is much to do; results come in the order of the items, the first error ends it."""

    def spread(each: Callable[[A], B], items: Sequence[A]) -> Iterable[B]:
        if threads == 1 or len(items) <= _AT_ONCE:
            return map(each, items)
        return _in_threads(threads, each, items)

    return spread


def _in_threads(threads: int, each: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
    parts = [items[at : at + _AT_ONCE] for at in range(0, len(items), _AT_ONCE)]
    with ThreadPoolExecutor(threads, thread_name_prefix="headrace-load") as pool:
        for done in pool.map(lambda part: [each(one) for one in part], parts):
            yield from done
