"""The logs with something on its way: files to remove, names to sync, records to flush; all others rest and are not looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_Log = TypeVar("_Log")


class BusyLogs(Generic[_Log]):
    """Logs put themselves in when they have something to do later; the store looks at them about once a second, and at no others.

    `on_first` is told when there is one after there was none: whoever sleeps must wake up for it.
    """

    __slots__ = ("_logs", "on_first")

    def __init__(self) -> None:
        self._logs: dict[_Log, None] = {}
        self.on_first: Callable[[], None] = _nobody

    def __len__(self) -> int:
        return len(self._logs)

    def add(self, log: _Log) -> None:
        """`log` has something to do. On the event loop."""
        is_first = not self._logs
        self._logs[log] = None
        if is_first:
            self.on_first()

    def add_quietly(self, log: _Log) -> None:
        """The same from a thread, whose end is looked at anyway."""
        self._logs[log] = None

    def discard(self, log: _Log) -> None:
        """`log` is closed."""
        self._logs.pop(log, None)

    def all(self) -> list[_Log]:
        """Those that there are, in the order in which they came."""
        return list(self._logs)


def _nobody() -> None:
    """Nobody sleeps."""
