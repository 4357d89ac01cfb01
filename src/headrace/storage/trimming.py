"""How do records leave a partition log on disk: from its end, and from its beginning?

Nothing here waits for the disk but what must be durable before the next append: cutting, and starting anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from headrace.core.ports import DiskFull
from headrace.log.retention import SegmentAge, deletable
from headrace.storage.layout import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    offset_file,
)
from headrace.storage.log_base import LogBase
from headrace.storage.recovery import replay_producers
from headrace.storage.segment_file import Segment


class TrimmableLog(LogBase):
    """A partition log that can be cut, emptied, and relieved of its oldest segments."""

    __slots__ = ()

    def truncate_to(self, offset: int) -> bool:
        """Cut so that the log ends at or before `offset`, durably; producer state and epochs follow (K13, K35)."""
        state = self._state
        if offset >= state.log_end_offset:
            state.epochs.truncate_from_end(offset)
            return False
        if offset <= self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return True
        keep = bisect_right(self._bases, offset)
        if self._bases[keep - 1] == offset:
            keep -= 1
        segment = self._segments[keep - 1]
        found = segment.find(offset)
        if found is None:
            position, end = segment.size, self._end_of(segment)
        else:
            position, end = found[0], self._end_before(segment, found[0])
        self._before_cut(end, log_start=end)
        self._remove_newest(self._segments[keep:])
        segment.cut(position, end)
        self._finish_cut(end)
        return True

    def _end_before(self, segment: Segment, position: int) -> int:
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

    def _end_of(self, segment: Segment) -> int:
        """End offset of the last batch in `segment`."""
        end = segment.base_offset
        for _, header in segment.batches(segment.last_place()):
            end = header.next_offset
        return end

    def _before_cut(self, offset: int, *, log_start: int) -> None:
        """What checkpoints say above `offset` falls first, and snapshots of what goes are removed: a crash must not bring them back.

        A log start above `log_start` falls to it: found above the log's end, it would take what is appended from here on along.
        """
        state = self._state
        self.generation += 1
        self._positions.clear()
        self._room = None
        self._flush_limit = min(self._flush_limit, offset)
        if self._unacknowledged >= offset:
            self._unacknowledged = -1
        self._unsynced_indexes = [base for base in self._unsynced_indexes if base < offset]
        self.on_cut(offset)
        if state.durable_end_offset > offset or state.log_start_offset > log_start:
            state.durable_end_offset = min(state.durable_end_offset, offset)
            state.log_start_offset = min(state.log_start_offset, log_start)
            self.persist_recovery_point()
        stale = [at for at in self._snapshots if at > offset]
        for at in stale:
            self._files.unlink(offset_file(self.path, at, SNAPSHOT))
        self._snapshots = [at for at in self._snapshots if at <= offset]
        if stale:
            self._files.fsync_dir(self.path)

    def _remove_newest(self, segments: list[Segment]) -> None:
        """Remove the last segments, newest first, durably. Readers may still hold them open."""
        if not segments:
            return
        for segment in reversed(segments):
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                self._files.unlink(offset_file(self.path, segment.base_offset, suffix))
        self._files.fsync_dir(self.path)
        self.retired.unlinked(segments)
        self._stir()
        del self._segments[len(self._segments) - len(segments) :]
        del self._bases[len(self._segments) :]
        self._active = self._segments[-1] if self._segments else self._active

    def _finish_cut(self, end_offset: int) -> None:
        state = self._state
        state.cut(end_offset)
        self._active = self._segments[-1]
        replay_producers(
            self._files, self.path, state, self._segments, snapshots=self._snapshots, note_aborted=lambda _: False
        )
        state.producers.high_watermark_moved(state.high_watermark)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything, durably; the next record gets `offset`."""
        self._before_cut(
            min(offset, self._bases[0]), log_start=offset if log_start_offset is None else log_start_offset
        )
        old = self._segments
        for segment in reversed(old):
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                self._files.unlink(offset_file(self.path, segment.base_offset, suffix))
        for at in self._snapshots:
            self._files.unlink(offset_file(self.path, at, SNAPSHOT))
        self._files.unlink(f"{self.path}/{LEADER_EPOCHS}")
        self._files.fsync_dir(self.path)
        self.retired.unlinked(old)
        self._stir()
        self._snapshots = []
        self._active = Segment.create(self._files, self.path, offset, now_ms=old[-1].created_ms)
        self._segments, self._bases = [self._active], [offset]
        self._files.fsync_dir(self.path)
        self._state.restart_at(offset, offset if log_start_offset is None else log_start_offset)
        self._stored_epochs = -1

    def advance_log_start(self, offset: int) -> bool:
        """DeleteRecords: nothing below `offset` may be read any more."""
        if offset > self._state.high_watermark:
            raise ValueError(f"offset {offset} is above the high watermark {self._state.high_watermark}")
        if offset <= self._state.log_start_offset:
            return False
        self._state.raise_log_start(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention by time, size and log start offset; the number of segments removed."""
        state = self._state
        config = state.config
        segments = self._segments
        bounds_time = config.deletes_old and config.retention_ms >= 0
        first_only = len(segments) == 1 and not segments[0].size
        if first_only or not (config.deletes_old or self._bases[0] < state.log_start_offset):
            return 0
        ends = [*self._bases[1:], state.log_end_offset]
        ages = [
            SegmentAge(s.base_offset, end, s.size, s.largest_timestamp() if bounds_time else now_ms)
            for s, end in zip(segments, ends, strict=True)
        ]
        count = deletable(
            ages,
            config,
            log_start_offset=state.log_start_offset,
            high_watermark=min(state.high_watermark, state.last_stable_offset),
            now_ms=now_ms,
        )
        if count == len(segments):
            try:
                self.roll(now_ms)
            except DiskFull as fault:
                self.refused_for_space = str(fault)
                self._stir()
                count -= 1
        if count:
            state.raise_log_start(self._bases[count])
            self._retire_oldest(count)
        return count

    def delete_segments_below(self, offset: int) -> int:
        """Raise the log start to `offset` and drop whole segments below, durably; the number of segments removed."""
        state = self._state
        state.raise_log_start(min(offset, state.log_end_offset))
        count = bisect_right(self._bases, state.log_start_offset) - 1
        if count > 0:
            self._retire_oldest(count)
        return max(count, 0)

    def _retire_oldest(self, count: int) -> None:
        """The first `count` segments leave the log; their files go later."""
        self.generation += 1
        oldest = self._segments[:count]
        del self._segments[:count]
        del self._bases[:count]
        first = self._bases[0]
        gone = [at for at in self._snapshots[:-1] if at < first]
        self._snapshots = [at for at in self._snapshots if at not in gone]
        for at in gone:
            self._files.unlink(offset_file(self.path, at, SNAPSHOT))
        self.retired.add(oldest)
        self._stir()

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Compaction: `new` takes the place of `old`, which follow each other and begin at the same base offset."""
        self.generation += 1
        at = self._bases.index(old[0].base_offset)
        inner = {segment.base_offset for segment in old[1:]}
        for offset in [each for each in self._snapshots[:-1] if each in inner]:
            self._files.unlink(offset_file(self.path, offset, SNAPSHOT))
            self._snapshots.remove(offset)
        self._segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]
        self.retired.unlinked(old)
        self._stir()
