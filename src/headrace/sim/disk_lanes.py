"""The disk's work of one run of a simulated node: in each lane one job after the other, each after a while."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.node.jobs import DiskJob, Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.node.machine import NodeEffect


class DiskLanes:
    """`later` is given the lane whose first job is due some time from now."""

    def __init__(self, later: Callable[[Lane], None]) -> None:
        self._later = later
        self._lanes: dict[Lane, deque[tuple[NodeEffect, DiskJob, int]]] = {lane: deque() for lane in Lane}

    def enqueue(self, effect: NodeEffect, job: DiskJob, log_end: int) -> None:
        """One more job; `log_end` is that of the metadata log when it was ordered."""
        lane = self._lanes[job.lane]
        lane.append((effect, job, log_end))
        if len(lane) == 1:
            self._later(job.lane)

    def head(self, lane: Lane) -> tuple[NodeEffect, DiskJob, int]:
        """The job that is due."""
        return self._lanes[lane][0]

    def done(self, lane: Lane) -> None:
        """It is over; the next one begins."""
        queue = self._lanes[lane]
        queue.popleft()
        if queue:
            self._later(lane)
