"""What a log on disk tells its owner: that something is to be done later, that it is cut, that a disk is full."""

from __future__ import annotations

from collections.abc import Callable


def _nothing(*_: int) -> None:
    """A log that stands alone has no checkpoints but its own, no cleaner and nobody who looks after it."""


class LogOwner:
    """The calls that a log makes to the store it belongs to; the store puts its own in their place.

    `persist_recovery_point` is called when the durable end was lowered and must be on disk before the next append, `on_cut`
    with the offset from which on records are about to go, `wake` when something is to be done later.
    `refused_for_space` says why an append was refused on a full disk (D10); the store takes it.
    """

    __slots__ = ("on_cut", "persist_recovery_point", "refused_for_space", "wake")

    def __init__(self) -> None:
        self.persist_recovery_point: Callable[[], None] = _nothing
        self.on_cut: Callable[[int], None] = _nothing
        self.wake: Callable[[], None] = _nothing
        self.refused_for_space = ""
