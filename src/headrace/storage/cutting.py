"""Cuts of many logs of one log directory as one job, with the event loop free meanwhile.

A follower of a new leader drops what that does not have, in all partitions that it leads at once. One cut alone (`headrace.storage.trimming`)
looks up a place in an index that may be cold, replaces up to three checkpoints and syncs a file and a directory or two. Here each step is
done for all logs before the next one:

    look_up   in a thread   where each log is cut; nothing is changed
    lower     on the loop   what the checkpoints say above the cuts falls
    run       in a thread   the checkpoints, each once; then the files are cut and removed; one sync of all; producers from what is left
    finish    on the loop   the logs end where they were cut, and may be used again

From the making of the job to `finish` none of its logs may be read, written, flushed, trimmed or compacted (`LogOwner.is_being_cut`), so that
the thread has their files to itself. As nothing is appended before all is synced, the calls of `run` behind the checkpoints may reach the
disk in any order: recovery begins below the cut, and what is left behind it has no place in the log or was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.errors import StorageFault
from headrace.log.partition_log import PartitionLog
from headrace.storage.recovery import replay_producers
from headrace.storage.trimming import place_of_cut

if TYPE_CHECKING:
    from headrace.core.ids import TopicPartition
    from headrace.core.ports import Files
    from headrace.log.producers import ProducerStates
    from headrace.storage.index_file import EntryFile
    from headrace.storage.log_owner import LogOwner
    from headrace.storage.log_segments import LogSegments
    from headrace.storage.segment_file import Segment


class OpenLog(Protocol):
    """What a cut needs to know of the log; `headrace.storage.stored_log.StoredLog` is the real one."""

    owner: LogOwner
    topic_partition: TopicPartition
    directory: str
    is_closed: bool


class CutOfLog:
    """The part of one log; it cuts nothing where the log ends at `offset` or before, or was closed meanwhile."""

    def __init__(
        self,
        files: Files,
        log: OpenLog,
        state: PartitionLog,
        segments: LogSegments,
        *,
        offset: int,
        starts_over: bool,
    ) -> None:
        self.log = log
        self._files = files
        self._state = state
        self._segments = segments
        self._offset = offset
        self._starts_over = starts_over or (offset < state.log_end_offset and offset <= segments.bases[0])
        self._needs_cut = self._starts_over or offset < state.log_end_offset
        self._keep = self._position = 0
        self.end_offset = min(offset, segments.bases[0]) if self._starts_over else offset
        self._first: Segment | None = None
        self._indexes: Sequence[EntryFile] = ()
        self._producers: ProducerStates | None = None
        segments.begin_cut()

    @property
    def is_due(self) -> bool:
        """Something goes, from `end_offset` on."""
        return self._needs_cut and not self.log.is_closed

    def look_up(self) -> None:
        """Find the batch that holds the offset; blocks."""
        if not self._starts_over:
            self._keep, self._position, self.end_offset = place_of_cut(self._segments, self._offset)

    def lower(self) -> None:
        """What is durable and where the log starts fall to the cut: found above the log's end, they would take what is appended from there on along."""
        state, log_start = self._state, self._offset if self._starts_over else self.end_offset
        self._segments.before_cut(self.end_offset)
        state.durable_end_offset = min(state.durable_end_offset, self.end_offset)
        state.log_start_offset = min(state.log_start_offset, log_start)

    def apply(self) -> None:
        """Remove and cut files, unsynced; blocks."""
        segments = self._segments
        if self._starts_over:
            segments.unlink_all()
            self._first = segments.first_segment(self._offset)
            return
        segments.snapshots.remove_above(self.end_offset)
        segments.unlink(segments.in_order[self._keep :])
        self._indexes = segments.in_order[self._keep - 1].cut(self._position, self.end_offset)

    def sync(self) -> None:
        """Sync what `apply` did; blocks."""
        for index in self._indexes:
            index.sync()
        if self._first is None:
            self._segments.in_order[self._keep - 1].log.fsync()
        self._files.fsync_dir(self._segments.path)

    def learn_producers(self) -> None:
        """Read the producers' state at the new end; blocks."""
        if self._starts_over:
            return
        cut = PartitionLog(self._state.config)
        cut.log_end_offset = self.end_offset
        segments = self._segments
        replay_producers(
            self._files,
            segments.path,
            cut,
            segments.in_order[: self._keep],
            snapshots=segments.snapshots.offsets,
            note_aborted=lambda _: False,
        )
        self._producers = cut.producers

    def finish(self) -> None:
        """The log goes on from its new end."""
        state, segments = self._state, self._segments
        if self._first is not None:
            segments.started_over(self._first)
            state.restart_at(self._offset, self._offset)
        elif self._producers is not None:
            segments.newest_removed(segments.in_order[self._keep :])
            state.cut(self.end_offset)
            state.producers = self._producers
            state.producers.high_watermark_moved(state.high_watermark)
        else:
            state.epochs.truncate_from_end(self._offset)


class CutJob:
    """The cuts of logs that lie in one log directory; implements `headrace.log.ports.CutJob`.

    A StorageFault leaves the logs out of use: the directory goes offline.
    """

    def __init__(
        self,
        cuts: Sequence[CutOfLog],
        *,
        note_cuts: Callable[[Iterable[tuple[OpenLog, int]]], None],
        write_checkpoints: Callable[[], None],
        sync_tree: Callable[[Sequence[CutOfLog]], bool],
    ) -> None:
        """`note_cuts` tells the cleaner, durably; `sync_tree` syncs all at once where that is quicker, and says whether it did."""
        self._cuts = cuts
        self._note_cuts = note_cuts
        self._write_checkpoints = write_checkpoints
        self._sync_tree = sync_tree

    def _due(self) -> list[CutOfLog]:
        return [cut for cut in self._cuts if cut.is_due]

    def look_up(self) -> None:
        """Find where each log is cut; blocks. Raises StorageFault."""
        for cut in self._due():
            _unless_closed(cut, cut.look_up)

    def lower(self) -> None:
        """What lies above the cuts counts as gone."""
        for cut in self._due():
            cut.lower()

    def run(self) -> None:
        """Cut, durably; blocks. Raises StorageFault."""
        due = self._due()
        if not due:
            return
        self._note_cuts((cut.log, cut.end_offset) for cut in due)
        self._write_checkpoints()
        for cut in due:
            _apply(cut)
        if not self._sync_tree(due):
            for cut in due:
                _unless_closed(cut, cut.sync)
        for cut in due:
            _unless_closed(cut, cut.learn_producers)

    def finish(self) -> None:
        """The logs may be used again; who waited for one goes on."""
        for cut in self._cuts:
            if not cut.log.is_closed:
                cut.finish()
                cut.log.owner.cut_ended()


def _apply(cut: CutOfLog) -> None:
    """Change the files of a log that is open, and stays so meanwhile: once it is closed its names may be those of another."""
    with cut.log.owner.closing:
        if not cut.log.is_closed:
            cut.apply()


def _unless_closed(cut: CutOfLog, do: Callable[[], None]) -> None:
    """Do what changes nothing, and may take long; in vain for a log that is closed meanwhile. Raises StorageFault."""
    try:
        do()
    except StorageFault:
        if not cut.log.is_closed:
            raise
