"""Counts and times of the quorum node and the metadata loader of this node. For metrics.

`QuorumStatistics` observes, as `node.witness` does, while somebody wants metrics; without it nothing here is counted. Everything is
counted at the cost of an event: nothing grows with the log or the cluster.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.core.histogram import Histogram, RecentHistogram
from headrace.raft.events import FlushLog, HighWatermarkAdvanced, LogFlushed
from headrace.raft.roles import Candidate, Follower, Leader, Prospective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.raft.machine import RaftNode

BOUNDS_US: Final = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
BOUNDS_RECORDS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
MAX_UNCOMMITTED: Final = 10_000
"""Appends that wait to be committed and whose time is taken; of more, only the oldest are."""


class QuorumStatistics:
    """Counters of the metadata side of one node. Told by `node.metadata_plane` and `node.machine`, read by whoever shows them."""

    def __init__(self, raft: RaftNode, stopwatch: Callable[[], float]) -> None:
        """`stopwatch` gives seconds; only differences count."""
        self._raft = raft
        self._stopwatch = stopwatch
        self._log_end = raft.log_end
        self._role = raft.role
        self._flush_began: float | None = None
        self._election_began: float | None = None
        self._apply_began: float | None = None
        self._uncommitted: deque[tuple[int, float]] = deque()
        self.appended = 0
        """append-records: records that this node appended as the leader."""
        self.fetched = 0
        """fetch-records: records that it appended from a leader."""
        self.commits = RecentHistogram()
        """commit-latency in ms: from the append by the leader until the high watermark passed it (S4-62)."""
        self.elections = RecentHistogram()
        """election-latency in ms: from the first request for votes until somebody leads."""
        self.flushes = RecentHistogram()
        """raft-flush-latency in ms: from the order to sync the metadata log until it is done (S4-60)."""
        self.applies = RecentHistogram()
        """raft-apply-latency in ms: from the news that records are committed until every publisher was told (S4-61)."""
        self.batch_times_us = Histogram(BOUNDS_US)
        """MetadataBatchProcessingTimeUs; batches that are loaded together share their time evenly."""
        self.batch_records = Histogram(BOUNDS_RECORDS)
        """MetadataBatchSizes: records of a committed batch, 0 for a control batch."""
        self.snapshots_loaded = 0
        """HandleLoadSnapshotCount."""
        self.busy_s = 0.0
        """How long the quorum node, the loader and the controller have worked."""
        self.apply_busy_s = 0.0
        """How long of that went into committed records."""

    def begin(self) -> float:
        """The metadata side begins to work: what to give to `end`."""
        return self._stopwatch()

    def end(self, began: float) -> None:
        """It has done one event."""
        self.busy_s += self._stopwatch() - began

    def saw(self, event: object, effects: Sequence[object]) -> None:
        """The quorum node took an event."""
        raft = self._raft
        if type(event) is LogFlushed and self._flush_began is not None:
            self.flushes.add((self._stopwatch() - self._flush_began) * 1_000)
            self._flush_began = None
        if raft.role is not self._role:
            self._role_changed()
        if raft.log_end != self._log_end:
            self._log_moved(raft.log_end)
        for effect in effects:
            if type(effect) is FlushLog:
                if self._flush_began is None:
                    self._flush_began = self._stopwatch()
            elif type(effect) is HighWatermarkAdvanced:
                self._committed(effect.to)

    def _role_changed(self) -> None:
        self._role = role = self._raft.role
        if isinstance(role, Prospective | Candidate):
            if self._election_began is None:
                self._election_began = self._stopwatch()
        elif isinstance(role, Leader | Follower) and self._election_began is not None:
            self.elections.add((self._stopwatch() - self._election_began) * 1_000)
            self._election_began = None
        if not isinstance(role, Leader):
            self._uncommitted.clear()

    def _log_moved(self, end: int) -> None:
        """Records were appended, or the log was cut and perhaps grew again."""
        grown, self._log_end = end - self._log_end, end
        if grown <= 0:
            return
        if not isinstance(self._role, Leader):
            self.fetched += grown
            return
        self.appended += grown
        if len(self._uncommitted) < MAX_UNCOMMITTED:
            self._uncommitted.append((end, self._stopwatch()))

    def _committed(self, to: int) -> None:
        waiting = self._uncommitted
        while waiting and waiting[0][0] <= to:
            self.commits.add((self._stopwatch() - waiting.popleft()[1]) * 1_000)

    # What is committed

    def loading(self) -> float:
        """Committed records are about to be loaded: what to give to `loaded`."""
        now = self._stopwatch()
        if self._apply_began is None:
            self._apply_began = now
        return now

    def loaded(self, began: float, sizes: Sequence[int], *, is_visible: bool) -> None:
        """Batches of so many records each are loaded; without `is_visible` there is nothing to publish (yet)."""
        took_us = (self._stopwatch() - began) * 1_000_000
        if not is_visible and self._apply_began == began:
            self._apply_began = None
        for size in sizes:
            self.batch_records.add(size)
            self.batch_times_us.add(took_us / len(sizes))

    def published(self) -> None:
        """Every publisher of this node was told what was loaded."""
        if self._apply_began is not None:
            took = self._stopwatch() - self._apply_began
            self.apply_busy_s += took
            self.applies.add(took * 1_000)
            self._apply_began = None

    @property
    def latencies(self) -> dict[str, RecentHistogram]:
        """Those of raft-metrics, by name."""
        return {
            "commit-latency": self.commits,
            "election-latency": self.elections,
            "raft-flush-latency": self.flushes,
            "raft-apply-latency": self.applies,
        }

    def turn(self) -> None:
        """A new window begins for the highest values."""
        for each in self.latencies.values():
            each.turn()
