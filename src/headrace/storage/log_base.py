"""What does every part of a partition log on disk share: its state, its segments, and the beginning of a new one?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.core.ids import ZERO_UUID, TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import Files, Rng
from headrace.log.config import LogConfig
from headrace.log.epochs import EpochTable
from headrace.log.ports import (
    ActiveProducer,
)
from headrace.log.producers import ProducerStates
from headrace.storage.busy import BusyLogs
from headrace.storage.flushing import SyncsOfLog
from headrace.storage.layout import (
    INDEX,
    TIME_INDEX,
    TXN_INDEX,
    offset_file,
    partition_directory,
)
from headrace.storage.producer_snapshot import write_snapshot
from headrace.storage.recovery import Loaded
from headrace.storage.retired import RetiredSegments
from headrace.storage.room import Room
from headrace.storage.segment_file import Segment


def _nothing(*_: int) -> None:
    """The hook of a log without a recovery-point checkpoint, or without a cleaner."""


class LogBase:
    """State and segments of one partition log on disk. `TrimmableLog` and `StoredLog` build on it.

    `persist_recovery_point` is called when the durable end was lowered and must be on disk before the next append, `on_cut`
    with the offset from which on records are about to go.
    A log of a store puts itself into `busy` when something is to be done later.
    `refused_for_space` says why an append was refused on a full disk (D10); the store takes it.
    """

    __slots__ = (
        "_active",
        "_bases",
        "_clean_at_ms",
        "_files",
        "_flush_limit",
        "_idle_end",
        "_is_new",
        "_notes",
        "_positions",
        "_rng",
        "_room",
        "_segments",
        "_snapshots",
        "_state",
        "_stored_epochs",
        "_syncing_indexes",
        "_syncs",
        "_syncs_running",
        "_unacknowledged",
        "_unsynced_indexes",
        "_unsynced_names",
        "_wants_flush_to",
        "busy",
        "directory",
        "generation",
        "is_closed",
        "on_cut",
        "path",
        "persist_recovery_point",
        "refused_for_space",
        "retired",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        files: Files,
        partition: TopicPartition,
        loaded: Loaded,
        *,
        directory: str,
        topic_id: Uuid = ZERO_UUID,
        rng: Rng | None = None,
    ) -> None:
        self._files = files
        self.topic_partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.path = f"{directory}/{partition_directory(partition)}"
        self._rng = rng
        self._state = loaded.state
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._active = loaded.segments[-1]
        self._room: Room | None = None
        self._notes = loaded.notes
        self._positions: dict[int, int] = {}
        self._snapshots = list(loaded.snapshots)
        self._stored_epochs = loaded.state.epochs.version if loaded.epochs_stored else -1
        self._unsynced_names: list[str] = []
        self._unsynced_indexes: list[int] = []
        self._syncing_indexes: list[int] = []
        self._flush_limit = 0
        self._is_new = False
        self._syncs = SyncsOfLog()
        self._syncs_running = 0
        self._wants_flush_to = 0
        self._unacknowledged = -1
        self._clean_at_ms = 0
        self._idle_end = -1
        self.generation = 0
        self.is_closed = False
        self.refused_for_space = ""
        self.retired = RetiredSegments(files, self.path)
        self.persist_recovery_point: Callable[[], None] = _nothing
        self.on_cut: Callable[[int], None] = _nothing
        self.busy: BusyLogs[Any] | None = None
        self._active.jitter_ms = self._jitter()
        loaded.state.producers.high_watermark_moved(loaded.state.high_watermark)
        for segment in loaded.rebuilt:
            if segment is not self._active:
                segment.store_indexes()
                self._index_is_unsynced(segment)
                self._is_new = True

    @property
    def config(self) -> LogConfig:
        """Settings in force."""
        return self._state.config

    def update_config(self, config: LogConfig) -> None:
        """Obey other settings from now on."""
        self._state.config = config
        self._stir()

    def _stir(self) -> None:
        """Something is to be done later; the store comes back to this log."""
        if self.busy is not None:
            self.busy.add(self)

    @property
    def notes(self) -> Sequence[str]:
        """What was found amiss when the log was read, a line each."""
        return self._notes

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""
        return self._state.log_end_offset

    @property
    def acknowledged_end_offset(self) -> int:
        """The log's end, or the first offset that waits for a sync."""
        first = self._unacknowledged
        return self._state.log_end_offset if first < 0 else first

    @property
    def high_watermark(self) -> int:
        """First offset that is not committed."""
        return self._state.high_watermark

    def watch_start(self, moved: Callable[[], None] | None) -> None:
        """Tell `moved` whenever the log start was raised."""
        self._state.on_start_moved = moved

    @property
    def last_stable_offset(self) -> int:
        """What read-committed readers may see ends here."""
        return self._state.last_stable_offset

    @property
    def durable_end_offset(self) -> int:
        """Everything below is synced."""
        return self._state.durable_end_offset

    @property
    def recovery_point(self) -> int:
        """Where recovery begins after an unclean stop: everything below is synced, indexes of closed segments too (K33)."""
        return min([self._state.durable_end_offset, *self._unsynced_indexes, *self._syncing_indexes])

    @property
    def latest_epoch(self) -> int | None:
        """Leader epoch of the epoch table's last entry."""
        return self._state.epochs.latest

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; the last one is written to."""
        return self._segments

    @property
    def producers(self) -> ProducerStates:
        """What the log knows of its producers."""
        return self._state.producers

    @property
    def epochs(self) -> EpochTable:
        """Where each leader epoch began."""
        return self._state.epochs

    def _must_sync(self, first: int) -> bool:
        """True if what was appended from `first` on waits for a sync: it reached `flush.messages`, or came behind what did."""
        state = self._state
        if self._unacknowledged < 0 and state.log_end_offset - state.durable_end_offset >= state.config.flush_messages:
            self._unacknowledged = first
        return self._unacknowledged >= 0

    def is_flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages`, `flush.ms` or a roll asks for a flush, and none is under way."""
        if self._syncs_running:
            return False
        state = self._state
        unflushed = state.log_end_offset - state.durable_end_offset
        if unflushed <= 0:
            self._clean_at_ms = now_ms
            return self._is_new or bool(self._unsynced_indexes)
        config = state.config
        return (
            self._is_new
            or bool(self._unsynced_indexes)
            or self._wants_flush_to > state.durable_end_offset
            or unflushed >= config.flush_messages
            or now_ms - self._clean_at_ms >= config.flush_ms
        )

    def advance_high_watermark(self, to: int) -> int:
        """Raise the high watermark, at most to the log end."""
        state = self._state
        if to > state.high_watermark:
            end = state.log_end_offset
            state.high_watermark = to = to if to < end else end
            state.producers.high_watermark_moved(to)
        return state.high_watermark

    def set_high_watermark(self, to: int) -> int:
        """Set it within [log start, log end], also downwards."""
        return self._state.set_high_watermark(to)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """The largest known epoch at or below `epoch`, and where it ended (KIP-101, KIP-279)."""
        return self._state.epochs.end_offset_for(epoch, self._state.log_end_offset)

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at `offset`."""
        return self._state.epochs.epoch_at(offset)

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads `epoch` from the log end on."""
        self._room = None
        self._state.epochs.assign(epoch, self._state.log_end_offset)

    def active_producers(self) -> Sequence[ActiveProducer]:
        """Producers whose state has not expired, by id."""
        return self._state.producers.active()

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`."""
        self._state.producers.expire(now_ms, self._state.config.producer_id_expiration_ms)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end, unless the active one is empty and begins there."""
        active, end = self._active, self._state.log_end_offset
        if active.size == 0 and active.base_offset == end:
            return
        active.become_inactive()
        active.forget_indexes()
        self._index_is_unsynced(active)
        self._take_snapshot()
        self._active = Segment.create(self._files, self.path, end, now_ms=now_ms, jitter_ms=self._jitter())
        self._segments.append(self._active)
        self._bases.append(end)
        self._positions.clear()
        self._wants_flush_to = end
        self._stir()

    def _jitter(self) -> int:
        """How many ms sooner than others the active segment rolls: drawn below `segment.jitter.ms`, so that not all logs roll at once."""
        most = min(self._state.config.segment_jitter_ms, self._state.config.roll_ms)
        return self._rng.randrange(0, most) if self._rng is not None and most > 0 else 0

    def forget_idle_indexes(self) -> None:
        """Called now and then: closed segments give back what they read into memory a while ago, and the active one its file when nobody writes it.

        A log that is not written any more is synced first: files of a log at rest need not stay open, and a stop finds it durable.
        """
        for segment in self._segments[:-1]:
            segment.grow_idle()
        state, end = self._state, self._state.log_end_offset
        if end != self._idle_end:
            self._idle_end = end
        elif state.durable_end_offset < end:
            self._wants_flush_to = end
            self._stir()
        elif not self._syncs_running:
            self._active.let_go_of_file()

    def _index_is_unsynced(self, segment: Segment) -> None:
        """The next flush syncs the indexes of `segment`, which was written last just now."""
        for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
            self._unsynced_names.append(offset_file(self.path, segment.base_offset, suffix))
        self._unsynced_indexes.append(segment.base_offset)

    def _take_snapshot(self) -> None:
        end = self._state.log_end_offset
        if self._snapshots and self._snapshots[-1] == end:
            return
        self._unsynced_names.append(write_snapshot(self._files, self.path, end, self._state.producers))
        self._snapshots.append(end)
        self._active.names_changed = True
