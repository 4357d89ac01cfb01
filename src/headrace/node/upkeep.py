"""The upkeep of a broker's logs: when they are flushed, trimmed, checkpointed and compacted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headrace.broker.broker import Broker
from headrace.broker.ports import Clock
from headrace.log.ports import FlushJob, PartitionLogPort
from headrace.node.jobs import DiskJob, Lane, LogWork

COMPACTION_LOOK_MS: Final = 15_000
"""So often all logs are looked at for compaction, as Kafka does (log.cleaner.backoff.ms); where something is on its way `BUSY_LOOK_MS` after the look before."""

BUSY_LOOK_MS: Final = 1_000

AGAIN_MS: Final = 1_000
"""After a fault in the middle of it."""


class LogUpkeep:
    """Orders what logs need, as work for threads. A part of `node.machine`, from the time that the logs are loaded until they are closed.

    Where no log has anything on its way it waits for the next pass over all of them, or the next checkpoint.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        clock: Clock,
        do: Callable[[LogWork], None],
        woken: Callable[[], None],
    ) -> None:
        """`woken` is told when the next deadline is sooner than before."""
        config = broker.started_with
        self._broker = broker
        self._logs = broker.logs
        self._clock = clock
        self._checkpoint_interval_ms = config.replica_high_watermark_checkpoint_interval_ms
        self._cleans = config.log_cleaner_enable
        self._do = do
        self._woken = woken
        self._maintain_ms: int | None = None
        self._checkpoint_ms = 0
        self._compaction_ms = 0
        self._looked_ms = -BUSY_LOOK_MS
        self._is_compacting = False

    def begin(self) -> None:
        """The logs are loaded."""
        self._logs.when_busy(self._became_busy)
        now_ms = self._clock.now_ms()
        self._maintain_ms = self._checkpoint_ms = self._compaction_ms = now_ms
        self._woken()

    def end(self) -> None:
        """The logs are going to be closed: order nothing more."""
        self._maintain_ms = None

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._maintain_ms is None:
            return None
        due_ms = min(self._maintain_ms, self._checkpoint_ms)
        return min(due_ms, self._compaction_ms) if self._cleans and not self._is_compacting else due_ms

    def tick(self, now_ms: int) -> None:
        """Order what is due."""
        if self._maintain_ms is None:
            return
        wall_ms = self._clock.wall_ms()
        if now_ms >= self._maintain_ms:
            self._maintain(now_ms, wall_ms)
            self._compaction_ms = min(self._compaction_ms, max(now_ms, self._looked_ms + BUSY_LOOK_MS))
        if now_ms >= self._checkpoint_ms:
            self._checkpoint_ms = now_ms + self._checkpoint_interval_ms
            self._order(Lane.CHECKPOINTS, self._logs.write_checkpoints)
        if self._cleans and not self._is_compacting and now_ms >= self._compaction_ms:
            self._looked_ms, self._compaction_ms = now_ms, now_ms + COMPACTION_LOOK_MS
            self._compact(wall_ms)

    # --- what is ordered ---

    def _maintain(self, now_ms: int, wall_ms: int) -> None:
        self._maintain_ms = now_ms + AGAIN_MS
        self._logs.maintain(wall_ms)
        refusal = self._logs.take_space_refusal()
        if refusal:
            self._broker.on_warning(f"the disk is full, producers are refused until there is room: {refusal}")
        jobs = self._logs.flush_jobs_due(wall_ms)
        for directory in dict.fromkeys(log.directory for log, _ in jobs):
            self._flush([(log, job) for log, job in jobs if log.directory == directory])
        for removal in self._logs.removals_due():
            self._order(Lane.REMOVALS, removal)
        self._plan(now_ms, wall_ms)

    def _plan(self, now_ms: int, wall_ms: int) -> None:
        self._maintain_ms = now_ms + max(self._logs.next_maintenance_ms() - wall_ms, 0)

    def _became_busy(self) -> None:
        if self._maintain_ms is not None:
            now_ms = self._clock.now_ms()
            planned_ms = self._maintain_ms
            self._plan(now_ms, self._clock.wall_ms())
            self._maintain_ms = min(planned_ms, self._maintain_ms)
            self._woken()

    def _flush(self, jobs: Sequence[tuple[PartitionLogPort, FlushJob]]) -> None:
        """Those of one log directory: when it fails, the others' flushes end as they should."""

        def finish() -> None:
            for log, job in jobs:
                self._broker.log_syncs.flushed(log, job)
            self._became_busy()

        run = partial(self._logs.sync, jobs)
        self._do(LogWork(job=DiskJob(lane=Lane.FLUSHES, run=run, finish=finish, is_sync=True)))

    def _order(self, lane: Lane, run: Callable[[], None]) -> None:
        self._do(LogWork(job=DiskJob(lane=lane, run=run, finish=self._became_busy)))

    def _compact(self, wall_ms: int) -> None:
        compaction = self._logs.next_compaction(wall_ms)
        if compaction is None:
            return
        self._is_compacting = True

        def finish() -> None:
            self._is_compacting = False
            compaction.finish(self._clock.wall_ms())
            self._woken()

        def failed(fault: Exception) -> None:
            finish()
            raise fault

        self._do(LogWork(job=DiskJob(lane=Lane.COMPACTION, run=compaction.run, finish=finish, failed=failed)))
