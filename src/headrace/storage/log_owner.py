"""What a log on disk tells its owner: that something is to be done later, that it is cut, that a disk is full."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.storage.busy import BusyLogs
    from headrace.storage.roll_allowance import RollAllowance


def _nothing(*_: int) -> None:
    """A log that stands alone has no checkpoints but its own, and no cleaner."""


class LogOwner:
    """The calls that a log makes to the store it belongs to; the store puts its own in their place.

    `persist_recovery_point` is called when the durable end was lowered and must be on disk before the next append, `on_cut`
    with the offset from which on records are about to go.
    `is_compacted_here` says that a pass over the log began in this process, whose files may lie in its directory.
    `refused_for_space` says why an append was refused on a full disk (D10); the store takes it. The log is closed with `closing` held, and a thread
    that changes its files holds it, too. `rolls` says whether a new segment may be begun, None: always. While `is_being_cut`, a thread has the log to itself (`headrace.storage.cutting`).
    """

    __slots__ = (
        "_busy",
        "_log",
        "_waiting",
        "closing",
        "is_being_cut",
        "is_compacted_here",
        "on_cut",
        "persist_recovery_point",
        "refused_for_space",
        "rolls",
    )

    def __init__(self) -> None:
        self.persist_recovery_point: Callable[[], None] = _nothing
        self.on_cut: Callable[[int], None] = _nothing
        self.refused_for_space = ""
        self.rolls: RollAllowance | None = None
        self.is_being_cut = self.is_compacted_here = False
        self.closing = Lock()
        self._waiting: list[Callable[[], None]] = []
        self._busy: BusyLogs[Any] | None = None
        self._log: object = None

    def looks_after(self, log: object, busy: BusyLogs[Any]) -> None:
        """Whenever there is something to do for `log`, it is put among those that are `busy`."""
        self._busy, self._log = busy, log

    def after_cut(self, go_on: Callable[[], None]) -> bool:
        """True if the log is being cut: `go_on` is called when that is over, and never if the log is closed before."""
        if self.is_being_cut:
            self._waiting.append(go_on)
        return self.is_being_cut

    def cut_ended(self) -> None:
        """The log may be used again."""
        self.is_being_cut = False
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def wake(self) -> None:
        """Something is to be done later; the store comes back to this log."""
        if self._busy is not None:
            self._busy.add(self._log)
