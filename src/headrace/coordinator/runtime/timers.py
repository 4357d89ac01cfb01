"""Deadlines, and what is due at each."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Action = TypeVar("Action")


class Timers(Generic[Action]):
    """Actions by key, each with one deadline in milliseconds. Scheduling a key again replaces what was there.

    Putting a deadline off costs one dictionary write: the heap keeps the early entry and looks again when it is due. What was cancelled leaves it
    before it is due once there is more of it than of the rest and `spare` entries.
    """

    def __init__(self, *, spare: int = 1_000) -> None:
        self._spare = spare
        self._actions: dict[Hashable, tuple[int, Action]] = {}
        self._queued: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._actions)

    def schedule(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Have `action` due at `deadline_ms`, in place of what `key` had before."""
        self._actions[key] = (deadline_ms, action)
        queued = self._queued.get(key)
        if queued is None or queued > deadline_ms:
            self._queued[key] = deadline_ms
            heappush(self._heap, (deadline_ms, next(self._order), key))
            if len(self._heap) > self._spare + 2 * len(self._actions):
                self._forget_cancelled()

    def cancel(self, key: Hashable) -> None:
        """Forget `key`; nothing happens when it is unknown."""
        self._actions.pop(key, None)

    def deadline_of(self, key: Hashable) -> int | None:
        """When `key` is due, or None."""
        found = self._actions.get(key)
        return None if found is None else found[0]

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, or None when nothing is scheduled."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Action | None:
        """The action with the earliest deadline that has come, removed; None when there is none."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heappop(self._heap)
        del self._queued[key]
        return self._actions.pop(key)[1]

    def _forget_cancelled(self) -> None:
        """Let go of what was cancelled or replaced, long before it is due; the order of the others stays (M5)."""
        self._queued = {key: at for key, at in self._queued.items() if key in self._actions}
        self._heap = [entry for entry in self._heap if self._queued.get(entry[2]) == entry[0]]
        heapify(self._heap)

    def _settle(self) -> None:
        """Bring the heap's head up to date with cancelled and postponed keys."""
        while self._heap:
            queued_at, _, key = self._heap[0]
            current = self._queued.get(key) == queued_at
            found = self._actions.get(key)
            if current and found is not None and found[0] == queued_at:
                return
            heappop(self._heap)
            if not current:
                continue
            if found is None:
                del self._queued[key]
            else:
                self._queued[key] = found[0]
                heappush(self._heap, (found[0], next(self._order), key))
