"""The segments of one log on disk, in their order: where an offset lies in them, how one begins and how some leave."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.log.ports import FileSlice
from headrace.records.batch import LOG_OVERHEAD
from headrace.storage.layout import LEADER_EPOCHS, SEGMENT_SUFFIXES, offset_file
from headrace.storage.producer_snapshot import ProducerSnapshots
from headrace.storage.retired import RetiredSegments
from headrace.storage.segment_file import Segment

if TYPE_CHECKING:
    from headrace.core.ports import File, Files, Rng
    from headrace.log.partition_log import PartitionLog
    from headrace.storage.flush_state import FlushState
    from headrace.storage.log_owner import LogOwner
    from headrace.storage.recovery import Loaded

_slice: Callable[[tuple[File, int, int, int, int, bool]], FileSlice] = partial(tuple.__new__, FileSlice)
"""Out of a ready tuple: a third of the cost of its constructor."""
_CUT_OFF_SHARE_BITS = 3
"""A slice ends with a whole batch when no more than an eighth of what was asked for is lost by that."""


class LogSegments:
    """The segments of one log; the last one, `active`, is written to. Driven by `headrace.storage.stored_log.StoredLog`.

    `in_order` are all of them, oldest first, `bases` their base offsets; `retired` have left the log and wait for their removal.
    `generation` changes whenever some leave: what was read before may be gone.
    """

    __slots__ = (
        "_files",
        "_flush",
        "_idle_end",
        "_owner",
        "_rng",
        "_state",
        "active",
        "bases",
        "generation",
        "in_order",
        "path",
        "retired",
        "snapshots",
    )

    def __init__(
        self, files: Files, path: str, loaded: Loaded, *, flush: FlushState, owner: LogOwner, rng: Rng | None
    ) -> None:
        self._files = files
        self.path = path
        self._state = loaded.state
        self._flush = flush
        self._owner = owner
        self._rng = rng
        self.in_order = loaded.segments
        self.bases = [segment.base_offset for segment in loaded.segments]
        self.active = loaded.segments[-1]
        self.snapshots = ProducerSnapshots(files, path, loaded.snapshots)
        self.retired = RetiredSegments(files, path)
        self.generation = 0
        self._idle_end = -1
        self.active.jitter_ms = self._jitter()

    def go_on_for(self, state: PartitionLog, owner: LogOwner, before: LogSegments) -> None:
        """They take the place of those of another log, whose state this is."""
        self._state, self._owner = state, owner
        self.generation = before.generation + 1

    # --- reading: hot path ---

    def slice_of(
        self,
        segment: Segment,
        offset: int,
        start: int,
        upper: int,
        max_bytes: int,
        min_one_batch: bool,  # noqa: FBT001 - hot path
    ) -> FileSlice:
        """Whole batches of `segment` from position `start` on, where the one that holds `offset` begins, below offset `upper`."""
        if segment is not self.active:
            end = segment.size if upper >= self._next_base(segment) else segment.position_of(upper)
        elif upper == self._state.log_end_offset:
            end = segment.size
        else:
            end = segment.position_of(upper)
            segment.expect_reader(upper, end)
        size = end - start
        has_more = False
        if size > max_bytes:
            size = max(max_bytes, 0)
            whole = segment.boundary_before(start + size, start) - start
            if whole > 0:
                size = whole if size - whole <= size >> _CUT_OFF_SHARE_BITS else size
            elif size or min_one_batch:
                size = self._first_batch_or_less(segment, start, size, min_one_batch=min_one_batch)
                size = min(size, end - start)
            has_more = size < end - start
        elif segment is self.active:
            segment.expect_reader(upper, end)
        else:
            has_more = end == segment.size and self._next_base(segment) < upper
        if size <= 0:
            return FileSlice(None, 0, 0, offset, segment.base_offset, has_more)
        return _slice((segment.log, start, size, offset, segment.base_offset, has_more))

    @staticmethod
    def _first_batch_or_less(segment: Segment, start: int, size: int, *, min_one_batch: bool) -> int:
        """How much of `size` bytes from `start` is worth reading: all if the first batch is whole in it; else that batch, or nothing (KIP-74).

        Clients take bytes without a whole batch for an error.
        """
        found = next(segment.batches(start, scan_bytes=61), None)
        if found is None:
            return size
        first = found[1].length + LOG_OVERHEAD
        if first <= size:
            return size
        return first if min_one_batch else 0

    def _next_base(self, segment: Segment) -> int:
        """Where the segment after this one begins; it is not the active one."""
        return self.bases[bisect_right(self.bases, segment.base_offset)]

    # --- growing ---

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end, unless the active one is empty and begins there."""
        active, end = self.active, self._state.log_end_offset
        if active.size == 0 and active.base_offset == end:
            return
        active.become_inactive()
        active.forget_indexes()
        self._flush.index_written(active)
        self.take_producer_snapshot()
        self.active = Segment.create(self._files, self.path, end, now_ms=now_ms, jitter_ms=self._jitter())
        self.in_order.append(self.active)
        self.bases.append(end)
        self._flush.wants_to = end
        self._owner.wake()

    def _jitter(self) -> int:
        """How many ms sooner than others the active segment rolls: drawn below `segment.jitter.ms`, so that not all logs roll at once."""
        most = min(self._state.config.segment_jitter_ms, self._state.config.roll_ms)
        return self._rng.randrange(0, most) if self._rng is not None and most > 0 else 0

    def take_producer_snapshot(self) -> None:
        """Remember the producers at the log's end, for the next start."""
        name = self.snapshots.take(self._state.log_end_offset, self._state.producers)
        if name is not None:
            self._flush.name_written(name)
            self.active.names_changed = True

    # --- shrinking ---

    def unsynced(self) -> Sequence[Segment]:
        """Those that may have something to sync."""
        first = max(bisect_right(self.bases, self._state.durable_end_offset) - 1, 0)
        return [*self.retired.condemned, *self.in_order[first:]]

    def count_unsynced(self) -> int:
        """How many there are that may have something to sync, the active one among them."""
        return len(self.bases) - max(bisect_right(self.bases, self._state.durable_end_offset) - 1, 0)

    def rest(self) -> None:
        """Segments that are no longer written and are synced need no open file; called when a flush has ended."""
        at = bisect_right(self.bases, self._state.durable_end_offset) - 2
        while at >= 0 and not self.in_order[at].is_resting:
            _rest(self.in_order[at])
            at -= 1

    def begin_cut(self) -> None:
        """A thread is about to have the segments to itself; who waits for a sync waits in vain, and compaction under way comes to nothing."""
        assert not self._owner.is_being_cut, "one cut at a time"
        self._owner.is_being_cut = True
        self.generation += 1
        self._flush.first_unacknowledged = -1

    def before_cut(self, offset: int) -> None:
        """Some records from `offset` on are about to go."""
        self.generation += 1
        self._flush.cut(offset)

    def remove_newest(self, segments: Sequence[Segment]) -> None:
        """Remove the last segments, newest first, durably. Readers may still hold them open."""
        if not segments:
            return
        self.unlink(segments)
        self._files.fsync_dir(self.path)
        self.newest_removed(segments)

    def newest_removed(self, segments: Sequence[Segment]) -> None:
        """The files of the last segments have gone."""
        if not segments:
            return
        self.retired.unlinked(segments)
        self._owner.wake()
        del self.in_order[len(self.in_order) - len(segments) :]
        del self.bases[len(self.in_order) :]
        self.active = self.in_order[-1] if self.in_order else self.active
        self.active.is_resting = False

    def start_over(self, offset: int) -> None:
        """Drop everything, durably; the log goes on at `offset`."""
        self.unlink_all()
        self._files.fsync_dir(self.path)
        self.started_over(self.first_segment(offset))
        self._files.fsync_dir(self.path)

    def unlink_all(self) -> None:
        """Remove all files of the log but its topic id, newest first."""
        self.unlink(self.in_order)
        self.snapshots.remove_all()
        self._files.unlink(f"{self.path}/{LEADER_EPOCHS}")

    def first_segment(self, offset: int) -> Segment:
        """A new segment for a log that was emptied."""
        return Segment.create(self._files, self.path, offset, now_ms=self.active.created_ms)

    def started_over(self, first: Segment) -> None:
        """The files of all segments have gone; the log goes on with `first`."""
        self._flush.epochs_removed()
        self.retired.unlinked(self.in_order)
        self._owner.wake()
        self.active = first
        self.in_order, self.bases = [first], [first.base_offset]

    def unlink(self, segments: Sequence[Segment]) -> None:
        for segment in reversed(segments):
            for suffix in SEGMENT_SUFFIXES:
                self._files.unlink(offset_file(self.path, segment.base_offset, suffix))

    def retire_oldest(self, count: int) -> None:
        """The first `count` segments leave the log; their files go later."""
        self.generation += 1
        oldest = self.in_order[:count]
        del self.in_order[:count]
        del self.bases[:count]
        self.snapshots.remove_below(self.bases[0])
        self.retired.add(oldest)
        self._owner.wake()

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Compaction: `new` takes the place of `old`, which follow each other and begin at the same base offset."""
        self.generation += 1
        at = self.bases.index(old[0].base_offset)
        self.snapshots.remove_at({segment.base_offset for segment in old[1:]})
        self.in_order[at : at + len(old)] = [new]
        _rest(new)
        self.bases[at : at + len(old)] = [new.base_offset]
        self.retired.unlinked(old)
        self._owner.wake()

    # --- at rest ---

    def forget_idle(self) -> None:
        """Called now and then: closed segments give back what they read into memory a while ago, and the active one its file when nobody writes it.

        A log that is not written any more is synced first: files of a log at rest need not stay open, and a stop finds it durable.
        """
        for segment in self.in_order[:-1]:
            segment.grow_idle()
        state, end = self._state, self._state.log_end_offset
        if end != self._idle_end:
            self._idle_end = end
        elif state.durable_end_offset < end:
            self._flush.wants_to = end
            self._owner.wake()
        elif not self._flush.running:
            self.active.let_go_of_file()


def _rest(segment: Segment) -> None:
    """It is no longer written, and synced: its file is open for readers only."""
    segment.is_resting = True
    segment.let_go_of_file()
