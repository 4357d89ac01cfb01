"""Which replies wait for what, and until when?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from headrace.rpc.reply import Deferred

_SPARE_DEADLINES = 1_024


class _Waiting:
    """One watched deferred: the keys that may complete it and the attempt to make when one of them moves."""

    __slots__ = ("attempt", "deferred", "keys")

    def __init__(self, deferred: Deferred, keys: tuple[Hashable, ...], attempt: Callable[[Hashable], bool]) -> None:
        self.deferred = deferred
        self.keys = keys
        self.attempt = attempt


class Purgatory:
    """Waiting replies by key and by deadline. Handlers fill it, the node's events and ticks empty it.

    A key is anything hashable, for example `("append", topic_partition)`. Waiters of one key are tried in the order they came.
    """

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[int, _Waiting]] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._ids = count()
        self.on_deadline: Callable[[int], None] = _nobody
        """Told each deadline that is waited for, so that `expire` is called in time."""

    def __len__(self) -> int:
        return len(self._waiting)

    def watch(self, deferred: Deferred, keys: Iterable[Hashable], attempt: Callable[[], bool]) -> None:
        """Try `attempt` whenever one of `keys` moves; it completes the deferred and says whether it did.

        `attempt` is not called here: a caller tries once itself before it waits.
        """
        self.watch_keys(deferred, keys, lambda _: attempt())

    def watch_keys(self, deferred: Deferred, keys: Iterable[Hashable], attempt: Callable[[Hashable], bool]) -> None:
        """As `watch`; `attempt` is told which key moved."""
        if deferred.is_done:
            return
        number = next(self._ids)
        waiting = _Waiting(deferred, tuple(keys), attempt)
        self._waiting[number] = waiting
        for key in waiting.keys:
            self._by_key.setdefault(key, {})[number] = waiting
        if deferred.deadline_ms is not None:
            heappush(self._deadlines, (deferred.deadline_ms, number))
            self.on_deadline(deferred.deadline_ms)
            if len(self._deadlines) > 2 * len(self._waiting) + _SPARE_DEADLINES:
                self._forget_deadlines()
        deferred.on_abandoned = lambda: self._forget(number)

    def moved(self, key: Hashable) -> None:
        """Something about `key` changed: try those that wait for it."""
        waiters = self._by_key.get(key)
        if not waiters:
            return
        for number, waiting in list(waiters.items()):
            if waiting.deferred.is_done or waiting.attempt(key):
                self._forget(number)

    def expire(self, now_ms: int) -> None:
        """Answer everything whose deadline has come."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number = heappop(self._deadlines)
            waiting = self._waiting.get(number)
            if waiting is not None:
                self._forget(number)
                waiting.deferred.expire()

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, or None."""
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _forget_deadlines(self) -> None:
        """Of replies that were given long before their time: a client may ask for weeks, and produce all day (M5)."""
        self._deadlines = [each for each in self._deadlines if each[1] in self._waiting]
        heapify(self._deadlines)

    def _forget(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return
        for key in waiting.keys:
            waiters = self._by_key.get(key)
            if waiters is not None:
                waiters.pop(number, None)
                if not waiters:
                    del self._by_key[key]


def _nobody(_: int) -> None:
    """Nobody sleeps until a deadline."""
