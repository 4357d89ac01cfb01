"""What metadata ask of this broker's replicas and is still to be done: roles of logs that are there go before logs that must be made or removed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from headrace.broker.partitions import HostedPartition

TakeRole: TypeAlias = Callable[[Any], HostedPartition | None]


class DueRole(NamedTuple):
    """One thing to do: `take_role` with `change`. `place` is the partition (topic id, number) that it is about, None if it is about none."""

    take_role: TakeRole
    change: Any
    place: tuple[bytes, int] | None = None


class DueRoles:
    """Two queues: a change of leader does not wait until many logs are made or removed (S3-07). Each partition's changes stay in their order."""

    def __init__(self) -> None:
        self._roles: deque[DueRole] = deque()
        self._logs: deque[DueRole] = deque()
        self._places: dict[tuple[bytes, int], int] = {}
        """How many entries of `_logs` each partition has."""

    def __bool__(self) -> bool:
        return bool(self._roles or self._logs)

    def add(self, due: DueRole, *, needs_log_work: bool) -> None:
        """Behind all of its kind, and behind all of its partition."""
        if not needs_log_work and (due.place is None or due.place not in self._places):
            self._roles.append(due)
            return
        self._logs.append(due)
        if due.place is not None:
            self._places[due.place] = self._places.get(due.place, 0) + 1

    def next(self) -> DueRole:
        """Take out what is to be done next. Raises IndexError when nothing is due."""
        if self._roles:
            return self._roles.popleft()
        due = self._logs.popleft()
        if due.place is not None:
            self._places[due.place] -= 1
            if not self._places[due.place]:
                del self._places[due.place]
        return due

    def clear(self) -> None:
        """Nothing is to be done any more."""
        self._roles.clear()
        self._logs.clear()
        self._places.clear()
