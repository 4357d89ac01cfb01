"""Writing what was planned for a log: to the active segment, or to a new one where that is full."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.core.ports import DiskFull
from headrace.log.partition_log import WritePlan
from headrace.log.ports import Appended, AppendRefused
from headrace.log.segments import MAX_RELATIVE_OFFSET, TIME_ENTRY_BYTES, SegmentFacts, must_roll
from headrace.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog
    from headrace.storage.flush_state import FlushState
    from headrace.storage.log_owner import LogOwner
    from headrace.storage.log_segments import LogSegments
    from headrace.storage.segment_file import Segment

appended: Callable[[tuple[object, ...]], Appended] = partial(tuple.__new__, Appended)
"""`Appended` of its fields in order, without a call of Python's."""

LARGEST_SEGMENT: Final = 1 << 30
"""Kafka's default: no log goes beyond it while it waits for its turn to begin another one."""
MOST_UNSYNCED: Final = 16
"""Segments of one log that wait for their sync, each with an open file."""

BEING_CUT: Final = AppendRefused(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message="The log is being cut.")


class LogWriter:
    """Does the plans of one log's `PartitionLog`. Driven by `headrace.storage.stored_log.StoredLog`. Hot path."""

    __slots__ = ("_flush", "_owner", "_segments", "_state")

    def __init__(self, state: PartitionLog, segments: LogSegments, flush: FlushState, owner: LogOwner) -> None:
        self._state = state
        self._segments = segments
        self._flush = flush
        self._owner = owner

    def go_on_for(self, state: PartitionLog, owner: LogOwner) -> None:
        """Its segments take the place of those of another log, whose state this is."""
        self._state, self._owner = state, owner

    def write_planned(
        self, plan: WritePlan | AppendRefused | Appended, now_ms: int, *, commits: bool
    ) -> Appended | AppendRefused:
        """Write what was planned; a repeated batch waits for the sync that its first copy waits for."""
        if self._owner.is_being_cut:
            return BEING_CUT
        if isinstance(plan, WritePlan):
            done = self.write(plan, now_ms)
            if commits:
                self._commit()
            return done
        if isinstance(plan, Appended):
            first = self._flush.first_unacknowledged
            if plan.last_offset >= (self._state.log_end_offset if first < 0 else first):
                return plan._replace(waits_for_sync=True)
        return plan

    def added(self, first: int, last: int, size: int, *, commits: bool) -> Appended:
        """A batch was added that may have to be synced, or that others must copy, before it is acknowledged."""
        must_sync = self._flush.must_sync(first)
        if commits:
            self._commit()
        return appended((first, last, NO_TIMESTAMP, self._state.log_start_offset, size, False, must_sync))

    def _commit(self) -> None:
        """Nobody else has to copy it: the high watermark rises to the log's end, or to what waits for a sync."""
        state, first = self._state, self._flush.first_unacknowledged
        to = state.log_end_offset if first < 0 else first
        if to > state.high_watermark:
            state.high_watermark = to
            state.producers.high_watermark_moved(to)

    def write(self, plan: WritePlan, now_ms: int) -> Appended | AppendRefused:
        """Write what was planned, in a new segment where it must be."""
        data, batches, first, last, max_timestamp, _, append_time = plan
        state, segments = self._state, self._segments
        size = len(data)
        active = segments.active
        try:
            if self._must_roll(active, size, last, (now_ms, max_timestamp)):
                segments.roll(now_ms)
                if last - segments.active.base_offset > MAX_RELATIVE_OFFSET:
                    self.leap(first, now_ms)
                active = segments.active
            active.append(data, batches, state.config.index_interval_bytes)
        except DiskFull as fault:
            return self.refuse_for_space(fault)
        aborted = state.written(plan)
        if aborted is not None:
            for entry in aborted:
                active.txn_index.append(entry)
        must_sync = self._flush.must_sync(first)
        return Appended(first, last, append_time, state.log_start_offset, size, False, must_sync)  # noqa: FBT003 - hot path

    def leap(self, to: int, now_ms: int) -> None:
        """Go on at `to`, because compaction on the leader left a gap wider than a segment's offsets; durably, so that no recovery takes the gap for a torn write."""
        self._state.log_end_offset = self._state.producers.end_offset = to
        self._segments.roll(now_ms)
        job = self._flush.prepare(self._segments.unsynced)
        if job is not None:
            job.run_all()
            self._flush.flushed(job.upto)
        self._owner.persist_recovery_point()

    def refuse_for_space(self, fault: DiskFull) -> AppendRefused:
        """The disk is full: the log is as it was, and the store hears of it."""
        self._owner.refused_for_space = str(fault)
        self._owner.wake()
        return AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))

    def _must_roll(self, active: Segment, size: int, last_offset: int, clock: tuple[int, int]) -> bool:
        if active.size == 0:
            return last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        config = self._state.config
        if (
            active.size + size <= config.segment_bytes
            and last_offset - active.base_offset <= MAX_RELATIVE_OFFSET
            and active.first_timestamp >= 0
            and -1 < clock[1] <= active.first_timestamp + config.roll_ms - active.jitter_ms
            and len(active.index.file.data) + TIME_ENTRY_BYTES < config.segment_index_bytes
            and len(active.time_index.file.data) + TIME_ENTRY_BYTES < config.segment_index_bytes
        ):
            return False  # what nearly every batch is: one that plainly fits
        facts = SegmentFacts(
            active.base_offset,
            active.size,
            active.created_ms,
            active.first_timestamp,
            len(active.index),
            len(active.time_index),
            active.jitter_ms,
        )
        if not must_roll(facts, config, size=size, last_offset=last_offset, clock=clock):
            return False
        return not self._may_wait(active, size, last_offset, clock[0])

    def _may_wait(self, active: Segment, size: int, last_offset: int, now_ms: int) -> bool:
        """Whether the log goes on in its segment, because too many are begun just now, or too many of its own wait for their sync."""
        rolls = self._owner.rolls
        if (
            rolls is None
            or active.size + size > LARGEST_SEGMENT
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        ):
            return False
        return self._segments.count_unsynced() > MOST_UNSYNCED or not rolls.take(now_ms)
