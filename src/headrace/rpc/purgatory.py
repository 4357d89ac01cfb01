"""Replies that wait: every one with its deadline, some by a key that may complete them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from headrace.rpc.reply import Deferred, Operation

_SPARE_DEADLINES = 1_024
"""So many deadlines of replies that were given may lie beside those that wait before they are thrown out."""
_MOST_AT_ONCE = 50
"""Replies whose time is up that are given in one turn: a few milliseconds, or 30 where each tells of as many partitions as one may at once."""


class _Watch:
    """One watched deferred: the keys that may complete it and the attempt to make when one of them moves."""

    __slots__ = ("attempt", "deferred", "keys")

    def __init__(self, deferred: Deferred, keys: tuple[Hashable, ...], attempt: Callable[[], bool]) -> None:
        self.deferred = deferred
        self.keys = keys
        self.attempt = attempt


class Purgatory:
    """Replies that wait, in one order of their deadlines. A broker has one for all its APIs, and the way to the controller one of its own.

    A reply that somebody else wakes is held (`hold`) and let go when it is given (`release`); one that waits for anything to happen to a key
    is watched (`watch`) and tried when the key has `moved`. Handlers fill it, the node's events and ticks empty it. Waiters of one key are
    tried in the order they came.
    """

    def __init__(self) -> None:
        self._held: dict[int, Deferred] = {}
        self.waiting: dict[Operation, int] = dict.fromkeys(Operation, 0)
        """How many replies wait, by what they are of (S3-19)."""
        self._watches: dict[int, _Watch] = {}
        self._by_key: dict[Hashable, dict[int, _Watch]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._ids = count()
        self.on_deadline: Callable[[int], None] = _nobody
        """Told each deadline that is waited for, so that `expire` is called in time."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, deferred: Deferred) -> None:
        """Keep it until `release`, until its deadline (`Deferred.expire`), or until its asker has gone."""
        number = deferred.number = next(self._ids)
        self._held[number] = deferred
        self.waiting[deferred.operation] += 1
        deadline_ms = deferred.deadline_ms
        if deadline_ms is not None:
            heappush(self._deadlines, (deadline_ms, number))
            self.on_deadline(deadline_ms)
            if len(self._deadlines) > 2 * len(self._held) + _SPARE_DEADLINES:
                self._forget_deadlines()
        deferred.holder = self

    def release(self, deferred: Deferred) -> None:
        """It waits no more."""
        number = deferred.number
        if self._held.pop(number, None) is not None:
            self.waiting[deferred.operation] -= 1
        deferred.holder = None
        watch = self._watches.pop(number, None)
        if watch is not None:
            self._unlink(number, watch)

    def watch(self, deferred: Deferred, keys: Iterable[Hashable], attempt: Callable[[], bool]) -> None:
        """Try `attempt` whenever one of `keys` moves; it completes the deferred and says whether it did.

        `attempt` is not called here: a caller tries once itself before it waits.
        """
        if deferred.is_done:
            return
        self.hold(deferred)
        watch = self._watches[deferred.number] = _Watch(deferred, tuple(keys), attempt)
        for key in watch.keys:
            self._by_key.setdefault(key, {})[deferred.number] = watch

    def waiters_of(self, key: Hashable) -> int:
        """How many replies wait for `key`."""
        return len(self._by_key.get(key, ()))

    def moved(self, key: Hashable) -> None:
        """Something about `key` changed: try those that wait for it."""
        waiters = self._by_key.get(key)
        if not waiters:
            return
        for watch in list(waiters.values()):
            if watch.deferred.is_done or watch.attempt():
                self.release(watch.deferred)

    def hasten(self, deferred: Deferred, now_ms: int) -> None:
        """Its time is up now, whether it is held already or about to be: it is answered like all others of which that is so."""
        deadline_ms = deferred.deadline_ms
        if deferred.is_done or (deadline_ms is not None and deadline_ms <= now_ms):
            return
        deferred.deadline_ms = now_ms
        if deferred.number in self._held:
            heappush(self._deadlines, (now_ms, deferred.number))
            self.on_deadline(now_ms)

    def expire(self, now_ms: int) -> None:
        """Answer those whose deadline has come. Where they are very many the rest is still due, and is answered in the next turns."""
        left = _MOST_AT_ONCE
        while left and self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number = heappop(self._deadlines)
            deferred = self._held.get(number)
            if deferred is not None:
                left -= 1
                self.release(deferred)
                deferred.expire()

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, or None."""
        while self._deadlines and self._deadlines[0][1] not in self._held:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _forget_deadlines(self) -> None:
        """Of replies that were given long before their time: a client may ask for weeks, and produce all day (M5)."""
        self._deadlines = [each for each in self._deadlines if each[1] in self._held]
        heapify(self._deadlines)

    def _unlink(self, number: int, watch: _Watch) -> None:
        for key in watch.keys:
            waiters = self._by_key.get(key)
            if waiters is not None:
                waiters.pop(number, None)
                if not waiters:
                    del self._by_key[key]


def _nobody(_: int) -> None:
    """Nobody sleeps until a deadline."""
