"""The part of one log that is not durable yet: records, names, indexes and the table of epochs; when and how it becomes so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.storage.flushing import SegmentFlush, SyncsOfLog, ToSync
from headrace.storage.layout import INDEX, TIME_INDEX, TXN_INDEX, log_directory_of, offset_file

if TYPE_CHECKING:
    from headrace.core.offsets import OffsetAndEpoch
    from headrace.core.ports import Files
    from headrace.log.partition_log import PartitionLog
    from headrace.storage.segment_file import Segment


class FlushState:
    """What of a log waits for a flush, and which flushes are under way. Driven by `headrace.storage.stored_log.StoredLog`.

    `first_unacknowledged` is the first offset that must be synced before it is acknowledged, -1 if there is none; `is_new` says that the
    log's directory may lack its name on the disk, `is_closed` that jobs under way come to nothing, and `wants_to` up to where a roll or a rest asks for a flush. While it `is_held`, none is due: the log is about to go on in other files.
    """

    __slots__ = (
        "_clean_at_ms",
        "_files",
        "_limit",
        "_path",
        "_state",
        "_stored_epochs",
        "_syncing_indexes",
        "_syncs",
        "_unsynced_indexes",
        "_unsynced_names",
        "first_unacknowledged",
        "is_closed",
        "is_held",
        "is_new",
        "running",
        "wants_to",
    )

    def __init__(self, files: Files, path: str, state: PartitionLog, *, epochs_stored: bool) -> None:
        self._files = files
        self._path = path
        self._state = state
        self._stored_epochs = state.epochs.version if epochs_stored else -1
        self._unsynced_names: list[str] = []
        self._unsynced_indexes: list[int] = []
        self._syncing_indexes: list[int] = []
        self._syncs = SyncsOfLog()
        self._limit = 0
        self._clean_at_ms = 0
        self.running = 0
        self.is_closed = self.is_held = False
        self.is_new = False
        self.wants_to = 0
        self.first_unacknowledged = -1

    # --- what waits ---

    def must_sync(self, first: int) -> bool:
        """True if what was appended from `first` on waits for a sync: it reached `flush.messages`, or came behind what did."""
        state = self._state
        if (
            self.first_unacknowledged < 0
            and state.log_end_offset - state.durable_end_offset >= state.config.flush_messages
        ):
            self.first_unacknowledged = first
        return self.first_unacknowledged >= 0

    def is_due(self, now_ms: int) -> bool:
        """True if `flush.messages`, `flush.ms` or a roll asks for a flush, and none is under way."""
        if self.running or self.is_held:
            return False
        state = self._state
        unflushed = state.log_end_offset - state.durable_end_offset
        if unflushed <= 0:
            self._clean_at_ms = now_ms
            return self.is_new or bool(self._unsynced_indexes)
        config = state.config
        return (
            self.is_new
            or bool(self._unsynced_indexes)
            or self.wants_to > state.durable_end_offset
            or unflushed >= config.flush_messages
            or now_ms - self._clean_at_ms >= config.flush_ms
        )

    def is_expected(self) -> bool:
        """A flush will be due, or one is under way, though nothing new happens to the log."""
        config = self._state.config
        wants_flush = self.is_new or self.wants_to > self._state.durable_end_offset
        has_timer = config.asks_for_syncs
        return wants_flush or has_timer or self.running > 0 or bool(self._unsynced_indexes)

    @property
    def recovery_point(self) -> int:
        """Where recovery begins after an unclean stop: everything below is synced, indexes of closed segments too (K33)."""
        return min([self._state.durable_end_offset, *self._unsynced_indexes, *self._syncing_indexes])

    def index_written(self, segment: Segment) -> None:
        """The next flush syncs the indexes of `segment`, which was written last just now."""
        for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
            self._unsynced_names.append(offset_file(self._path, segment.base_offset, suffix))
        self._unsynced_indexes.append(segment.base_offset)

    def name_written(self, name: str) -> None:
        """The next flush syncs this file."""
        self._unsynced_names.append(name)

    def cut(self, offset: int) -> None:
        """What lies at `offset` and above is about to go: no flush that is under way makes it durable."""
        self._limit = min(self._limit, offset)
        if self.first_unacknowledged >= offset:
            self.first_unacknowledged = -1
        self._unsynced_indexes = [base for base in self._unsynced_indexes if base < offset]

    def stored_epochs(self) -> list[OffsetAndEpoch] | None:
        """The entries of the stored table of epochs, after a flush; None where they are not known."""
        epochs, stored = self._state.epochs, self._stored_epochs
        if stored < 0 or epochs.is_worth_storing(stored, self._state.log_end_offset):
            return None
        entries = epochs.entries()
        return (
            entries if stored == epochs.version else entries[:-1]
        )  # the last one began at the end, and was not stored

    def epochs_removed(self) -> None:
        """There is no stored table of epochs any more."""
        self._stored_epochs = -1

    def go_on_for(self, state: PartitionLog, before: FlushState) -> None:
        """The files take the place of those of another log, whose state this is; what waited for a sync there waits here."""
        state.durable_end_offset = self._state.durable_end_offset
        self._state = state
        self._stored_epochs = -1
        self._limit = min(self._limit, state.durable_end_offset)
        self.wants_to = state.log_end_offset
        self.first_unacknowledged = before.first_unacknowledged
        self.is_new = before.is_closed = True

    # --- flushes ---

    def prepare(self, unsynced: Callable[[], Sequence[Segment]]) -> SegmentFlush | None:
        """A job that makes everything appended so far durable; None if it is already. `unsynced` gives the segments that may not be.

        StorageFault after a sync that failed (K31).
        """
        if self._syncs.has_failed:
            raise self._syncs.fault(self._path)
        state = self._state
        end = state.log_end_offset
        epochs_changed = state.epochs.is_worth_storing(self._stored_epochs, end)
        if end <= state.durable_end_offset and not self._unsynced_names and not epochs_changed:
            return None
        dirty = unsynced()
        work = ToSync(
            logs=[segment.log for segment in dirty],
            named=self._unsynced_names,
            syncs_names=any(segment.names_changed for segment in dirty),
            parent=log_directory_of(self._path) if self.is_new else None,
            epochs=state.epochs.entries() if epochs_changed else None,
        )
        job = SegmentFlush(self._files, self._path, work, upto=end, syncs=self._syncs, is_closed=lambda: self.is_closed)
        self.running += 1
        for segment in dirty:
            segment.names_changed = False
        self._unsynced_names = []
        self._syncing_indexes += self._unsynced_indexes
        self._unsynced_indexes = []
        self.is_new = False
        if epochs_changed:
            self._stored_epochs = state.epochs.version
        self._limit = end
        return job

    def flushed(self, upto: int) -> None:
        """A flush job ended well: raise the durable end."""
        state = self._state
        self.running = max(self.running - 1, 0)
        if self.running == 0:
            self._syncing_indexes = []
        if self._syncs.lacks_epochs:
            self._stored_epochs = -1
        durable = state.durable_end_offset = max(state.durable_end_offset, min(upto, self._limit, state.log_end_offset))
        if self.first_unacknowledged >= 0:
            self.first_unacknowledged = (
                -1 if durable >= state.log_end_offset else max(durable, self.first_unacknowledged)
            )
