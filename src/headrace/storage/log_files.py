"""The files of one log: what is simply added to them, what of them is not durable yet, and how the log goes on in others, in another log directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.ports import DiskFull
from headrace.records.batch import NO_TIMESTAMP
from headrace.storage.append_limits import append_limits
from headrace.storage.following import add_usual
from headrace.storage.known_logs import KnownLog, known_segments
from headrace.storage.log_writer import appended

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.core.ports import Files
    from headrace.log.partition_log import PartitionLog
    from headrace.log.ports import Appended, AppendRefused
    from headrace.storage.append_limits import AppendLimits
    from headrace.storage.flush_state import FlushState
    from headrace.storage.flushing import SegmentFlush
    from headrace.storage.log_owner import LogOwner
    from headrace.storage.log_segments import LogSegments
    from headrace.storage.log_writer import LogWriter
    from headrace.storage.retired import RetiredSegments
    from headrace.storage.trimming import LogTrimmer


class LogFiles:
    """The part of `headrace.storage.stored_log.StoredLog` that may be exchanged: its directory, and everything that works on files there."""

    __slots__ = (
        "_files",
        "_flush",
        "_limits",
        "_segments",
        "_state",
        "_trimmer",
        "_writer",
        "directory",
        "owner",
        "path",
        "retired",
        "topic_id",
    )

    _files: Files
    _flush: FlushState
    _limits: AppendLimits | None
    _segments: LogSegments
    _state: PartitionLog
    _trimmer: LogTrimmer
    _writer: LogWriter
    directory: str
    owner: LogOwner
    path: str
    retired: RetiredSegments
    topic_id: Uuid

    # --- appending what is usual ---

    def _new_limits(self, now_ms: int, *, is_follower: bool) -> AppendLimits | None:
        """Within which batches are simply added from now on; None if each must be looked at closely."""
        state, active, limits = self._state, self._segments.active, None
        if not self.owner.is_being_cut:
            limits = append_limits(state.config, active, state, now_ms=now_ms, is_follower=is_follower)
        self._limits = limits
        return limits

    def _add_followed(self, batches: memoryview, leader_epoch: int, now_ms: int) -> Appended | AppendRefused | None:
        """Add the batches of a leader if nothing about them is unusual; else None, and nothing is done. Hot path."""
        state, limits = self._state, self._limits
        if (
            limits is None
            or limits.config is not state.config
            or limits.segment is not self._segments.active
            or not limits.from_ms <= now_ms <= limits.until_ms
            or not limits.is_follower
        ):
            limits = self._new_limits(now_ms, is_follower=True)
            if limits is None:
                return None
        first, size = state.log_end_offset, len(batches)
        try:
            last = add_usual(batches, state, limits, leader_epoch)
        except DiskFull as fault:
            return self._writer.refuse_for_space(fault)
        if last < 0:
            self._limits = None
            return None
        if last > limits.unsynced_offset:
            return self._writer.added(first, last, size, commits=False)
        return appended((first, last, NO_TIMESTAMP, state.log_start_offset, size, False, False))

    # --- flushing ---

    def is_flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages`, `flush.ms` or a roll asks for a flush, and none is under way."""
        return not self.owner.is_being_cut and self._flush.is_due(now_ms)

    def prepare_flush(self) -> SegmentFlush | None:
        """A job that makes everything appended so far durable; None if it is already. StorageFault after a sync that failed (K31)."""
        return None if self.owner.is_being_cut else self._flush.prepare(self._segments.unsynced)

    def flushed(self, upto: int) -> None:
        """A flush job ended well: raise the durable end."""
        self._flush.flushed(upto)
        self._segments.rest()

    @property
    def is_flushing(self) -> bool:
        """A flush job is under way."""
        return self._flush.running > 0

    def hold_flushes(self, *, held: bool) -> None:
        """While they are held no flush is due."""
        self._flush.is_held = held
        self.owner.wake()

    def at_rest(self) -> KnownLog | None:
        """How the log stands on the disk after a flush, as its directory and files would tell the next start; None where that must read them, or the log was closed.

        Nothing but appends has happened to such a log since it was opened: a file whose removal is under way, or is not decided, would be overlooked.
        """
        segments, state, epochs = self._segments, self._state, self._flush.stored_epochs()
        owner = self.owner
        is_plain = segments.generation == 0 and not owner.is_being_cut and not owner.is_compacted_here
        if epochs is None or not is_plain or any(segment.has_aborted for segment in segments.in_order):
            return None
        sizes = ((segment.base_offset, segment.size) for segment in segments.in_order)
        found, directory = known_segments(self._files, self.path, sizes), self._files.stat(self.path)
        if found is None or directory is None or self._flush.is_closed:  # else another log may have the name by now
            return None
        return KnownLog(
            directory.stamp,
            self.topic_id,
            state.log_end_offset,
            tuple(epochs),
            found,
            tuple(segments.snapshots.offsets),
            has_producers=bool(state.producers),
        )

    # --- moving ---

    def leap(self, to: int, now_ms: int) -> None:
        """Go on at `to`, above the log's end, because compaction left nothing in between; durably."""
        self._limits = None
        self._writer.leap(to, now_ms)

    def go_on_in(self, other: LogFiles) -> Callable[[], None]:
        """Go on in the files of `other`, which hold the same records; what closes those that it had. Jobs under way for them come to nothing."""
        with self.owner.closing:
            flush, segments, state = self._flush, self._segments, self._state
            self._limits = None
            self._files, self.directory, self.path = other._files, other.directory, other.path
            self._flush, self._segments, self._writer = other._flush, other._segments, other._writer
            self._trimmer, self.retired = other._trimmer, other.retired
            self._flush.go_on_for(state, flush)
            self._segments.go_on_for(state, self.owner, segments)
            self._writer.go_on_for(state, self.owner)
            self._trimmer.go_on_for(state, self.owner)

        def close() -> None:
            segments.retired.close(remove=False)
            for segment in segments.in_order:
                segment.close()

        return close
