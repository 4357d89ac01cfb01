"""How records leave a partition log on disk: from its end, and from its beginning.

Nothing here waits for the disk but what must be durable before the next append: cutting, and starting anew.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.core.ports import DiskFull
from headrace.log.retention import SegmentAge, deletable
from headrace.storage.recovery import replay_producers

if TYPE_CHECKING:
    from headrace.core.ports import Files
    from headrace.log.partition_log import PartitionLog
    from headrace.storage.log_owner import LogOwner
    from headrace.storage.log_segments import LogSegments
    from headrace.storage.segment_file import Segment


class LogTrimmer:
    """Cuts a log, empties it, and relieves it of its oldest segments. Driven by `headrace.storage.stored_log.StoredLog`."""

    __slots__ = ("_files", "_owner", "_segments", "_state")

    def __init__(self, files: Files, state: PartitionLog, segments: LogSegments, owner: LogOwner) -> None:
        self._files = files
        self._state = state
        self._segments = segments
        self._owner = owner

    def go_on_for(self, state: PartitionLog, owner: LogOwner) -> None:
        """Its segments take the place of those of another log, whose state this is."""
        self._state, self._owner = state, owner

    # --- from the end ---

    def cut(self, offset: int) -> None:
        """Cut so that the log, which reaches above `offset` and begins below, ends there or before, durably; producer state and epochs follow (K13, K35)."""
        segments = self._segments
        keep, position, end = place_of_cut(segments, offset)
        segment = segments.in_order[keep - 1]
        self._before_cut(end, log_start=end)
        segments.remove_newest(segments.in_order[keep:])
        for index in segment.cut(position, end):
            index.sync()
        segment.log.fsync()
        state = self._state
        state.cut(end)
        replay_producers(
            self._files,
            segments.path,
            state,
            segments.in_order,
            snapshots=segments.snapshots.offsets,
            note_aborted=lambda _: False,
        )
        state.producers.high_watermark_moved(state.high_watermark)

    def _before_cut(self, offset: int, *, log_start: int) -> None:
        """What checkpoints say above `offset` falls first, and snapshots of what goes are removed: a crash must not bring them back.

        A log start above `log_start` falls to it: found above the log's end, it would take what is appended from here on along.
        """
        state = self._state
        self._segments.before_cut(offset)
        self._owner.on_cut(offset)
        if state.durable_end_offset > offset or state.log_start_offset > log_start:
            state.durable_end_offset = min(state.durable_end_offset, offset)
            state.log_start_offset = min(state.log_start_offset, log_start)
            self._owner.persist_recovery_point()
        self._segments.snapshots.cut(offset)

    def start_over(self, offset: int, *, log_start_offset: int) -> None:
        """Drop everything, durably; the next record gets `offset`."""
        self._before_cut(min(offset, self._segments.bases[0]), log_start=log_start_offset)
        self._segments.start_over(offset)
        self._state.restart_at(offset, log_start_offset)

    # --- from the beginning ---

    def delete_old(self, now_ms: int) -> int:
        """Apply retention by time, size and log start offset; the number of segments removed."""
        state, segments = self._state, self._segments
        config, in_order = state.config, segments.in_order
        bounds_time = config.deletes_old and config.retention_ms >= 0
        first_only = len(in_order) == 1 and not in_order[0].size
        if first_only or not (config.deletes_old or segments.bases[0] < state.log_start_offset):
            return 0
        ends = [*segments.bases[1:], state.log_end_offset]
        ages = [
            SegmentAge(s.base_offset, end, s.size, s.largest_timestamp() if bounds_time else now_ms)
            for s, end in zip(in_order, ends, strict=True)
        ]
        count = deletable(
            ages,
            config,
            log_start_offset=state.log_start_offset,
            high_watermark=min(state.high_watermark, state.last_stable_offset),
            now_ms=now_ms,
        )
        if count == len(in_order):
            try:
                segments.roll(now_ms)
            except DiskFull as fault:
                self._owner.refused_for_space = str(fault)
                self._owner.wake()
                count -= 1
        if count:
            state.raise_log_start(segments.bases[count])
            segments.retire_oldest(count)
        return count

    def delete_below(self, offset: int) -> int:
        """Raise the log start to `offset` and drop whole segments below, durably; the number of segments removed."""
        state, segments = self._state, self._segments
        state.raise_log_start(min(offset, state.log_end_offset))
        count = bisect_right(segments.bases, state.log_start_offset) - 1
        if count > 0:
            segments.retire_oldest(count)
        return max(count, 0)


def place_of_cut(segments: LogSegments, offset: int) -> tuple[int, int, int]:
    """Where a log that reaches above `offset` and begins below is cut: (number of segments that stay, position in the last of them, its end offset)."""
    keep = bisect_right(segments.bases, offset)
    if segments.bases[keep - 1] == offset:
        keep -= 1
    segment = segments.in_order[keep - 1]
    found = segment.find(offset)
    if found is None:
        return keep, segment.size, _end_of(segment)
    return keep, found[0], _end_before(segment, found[0])


def _end_before(segment: Segment, position: int) -> int:
    """End offset of the batch that ends at `position`; compaction may have left a gap behind it."""
    end = segment.base_offset
    start = segment.last_place()
    if start >= position:
        start = 0
    for at, header in segment.batches(start):
        if at >= position:
            break
        end = header.next_offset
    return end


def _end_of(segment: Segment) -> int:
    """End offset of the last batch in `segment`."""
    end = segment.base_offset
    for _, header in segment.batches(segment.last_place()):
        end = header.next_offset
    return end
