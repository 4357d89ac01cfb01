"""Work of a node for its disks: what runs in a thread, in which order, and what follows where the machine runs."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from headrace.core.errors import StorageFault
from headrace.core.values import value_class


class Lane(Enum):
    """Jobs of one lane are done one at a time, in the order of their effects; lanes do not wait for one another.

    Those of `SYNC`, and those of `MOVES`, are of one log each, and need not wait for each other either.
    """

    QUORUM_STATE = "quorum state"
    METADATA_LOG = "metadata log"
    SNAPSHOT = "snapshot"
    LOGS = "logs"
    SYNC = "sync"
    FLUSHES = "flushes"
    CHECKPOINTS = "checkpoints"
    REMOVALS = "removals"
    CUTS = "cuts"
    MOVES = "moves"
    COMPACTION = "compaction"
    WALK = "walk"
    LARGE_WALK = "large walk"


def _nothing() -> None:
    """Most jobs need no preparation."""


@value_class
class DiskJob:
    """Work for the disk: `prepare` where the machine runs, `run` in a thread (it blocks), then `finish` where the machine runs.

    When `run` raises StorageFault, `failed` is called in place of `finish`; without one the disk counts as failed.
    """

    lane: Lane
    run: Callable[[], None]
    finish: Callable[[], None]
    failed: Callable[[StorageFault], None] | None = None
    prepare: Callable[[], None] = _nothing
    is_sync: bool = False
    """What it takes is the time of a sync, which operators look at."""

    def run_in_place(self) -> None:
        """Prepare and run, for drivers without threads. Raises StorageFault."""
        self.prepare()
        self.run()


@value_class
class LogWork:
    """Effect: do a job for the partition logs."""

    job: DiskJob
