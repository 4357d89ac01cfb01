"""One partition's log on disk: what `PartitionLog` decides, done to its segments.

    StoredLog ---- PartitionLog     offsets, epochs, producers: what they mean (`headrace.log`)
              ---- LogSegments      the segments in order, where an offset lies in them
              ---- FlushState       what is not durable yet
              ---- LogWriter        appends as planned
              ---- LogTrimmer       cutting, retention
              ---- LogOwner         what the store is told

The hot path: `append_client` and `read_slice`. Nothing here waits for the disk but what must be durable before the next append: cutting, and starting anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from functools import partial
from struct import Struct

from headrace.core.ids import ZERO_UUID, TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import DiskFull, Files, Rng
from headrace.log.config import LogConfig
from headrace.log.epochs import EpochTable
from headrace.log.ports import (
    AbortedTransaction,
    ActiveProducer,
    Appended,
    AppendRefused,
    CheckedBatch,
    FileSlice,
    Opening,
    Origin,
    OutOfRange,
    ProducerEnd,
    TimestampAndOffset,
)
from headrace.log.producers import ProducerStates
from headrace.log.validation import HIGHEST_CODEC, is_sound_header
from headrace.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    batch_is_sound,
    read_header,
)
from headrace.records.crc import crc32c
from headrace.records.walk import Search, finish
from headrace.storage import lookups
from headrace.storage.append_limits import AppendLimits
from headrace.storage.checkpoints import write_topic_id
from headrace.storage.cutting import CutOfLog
from headrace.storage.flush_state import FlushState
from headrace.storage.flushing import SegmentFlush
from headrace.storage.layout import PARTITION_METADATA, partition_directory
from headrace.storage.log_files import LogFiles
from headrace.storage.log_owner import LogOwner
from headrace.storage.log_segments import LogSegments
from headrace.storage.log_writer import BEING_CUT, LogWriter, appended
from headrace.storage.producer_recall import recall_batches
from headrace.storage.recovery import Loaded
from headrace.storage.segment_file import Segment
from headrace.storage.trimming import LogTrimmer

_HEADER = HEADER.unpack_from
_SET_PLACE = Struct(">qii").pack_into  # base offset, length, leader epoch


class StoredLog(LogFiles):
    """One partition's log in its directory; implements `headrace.log.ports.PartitionLogPort`."""

    __slots__ = (
        "is_closed",
        "notes",
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
        path = self.path = f"{directory}/{partition_directory(partition)}"
        state = self._state = loaded.state
        owner = self.owner = LogOwner()
        flush = self._flush = FlushState(files, path, state, epochs_stored=loaded.epochs_stored)
        segments = self._segments = LogSegments(files, path, loaded, flush=flush, owner=owner, rng=rng)
        self._writer = LogWriter(state, segments, flush, owner)
        self._trimmer = LogTrimmer(files, state, segments, owner)
        self.retired = segments.retired
        self._limits: AppendLimits | None = None
        self.notes: Sequence[str] = loaded.notes
        """What was found amiss when the log was read, a line each."""
        self.is_closed = False
        state.producers.high_watermark_moved(state.high_watermark)
        state.recall = partial(recall_batches, self)
        for segment in loaded.rebuilt:
            if segment is not segments.active:
                segment.store_indexes()
                flush.index_written(segment)
                flush.is_new = True

    # --- what it is and where it stands ---

    @property
    def config(self) -> LogConfig:
        """Settings in force."""
        return self._state.config

    def update_config(self, config: LogConfig) -> None:
        """Obey other settings from now on."""
        self._state.config = config
        self.owner.wake()

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
        first = self._flush.first_unacknowledged
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
        """Where recovery begins after an unclean stop."""
        return self._flush.recovery_point

    @property
    def latest_epoch(self) -> int | None:
        """Leader epoch of the epoch table's last entry."""
        return self._state.epochs.latest

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments.in_order)

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return len(self._segments.in_order)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; the last one is written to."""
        return self._segments.in_order

    @property
    def generation(self) -> int:
        """Changes whenever segments leave the log: what was read before may be gone."""
        return self._segments.generation

    @property
    def producers(self) -> ProducerStates:
        """What the log knows of its producers."""
        return self._state.producers

    @property
    def epochs(self) -> EpochTable:
        """Where each leader epoch began."""
        return self._state.epochs

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
        self._limits = None
        self._state.epochs.assign(epoch, self._state.log_end_offset)

    def producer_end(self, producer_id: int) -> ProducerEnd | None:
        """Where a producer stands; None if it is unknown here."""
        return self._state.producers.end_of(producer_id)

    def active_producers(self) -> Sequence[ActiveProducer]:
        """Producers whose state has not expired, by id."""
        return self._state.producers.active()

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`."""
        self._state.producers.expire(now_ms, self._state.config.producer_id_expiration_ms)

    # --- appending ---

    def append_as_leader(
        self,
        batches: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        commits: bool = False,
    ) -> Appended | AppendRefused:
        """Check the batches, set offsets and epochs in place, and write them to the page cache."""
        if origin is not Origin.CLIENT:
            plan = self._state.plan_internal(batches, leader_epoch=leader_epoch, origin=origin)
            return self._writer.write_planned(plan, now_ms, commits=commits)
        done = self.append_client(batches, leader_epoch=leader_epoch, now_ms=now_ms, commits=commits)
        if isinstance(done, Appended | AppendRefused):
            return done
        return self.append_checked(finish(done), leader_epoch=leader_epoch, now_ms=now_ms, commits=commits)

    def append_client(
        self, data: memoryview, *, leader_epoch: int, now_ms: int, commits: bool = False
    ) -> Appended | AppendRefused | Opening:
        """As `append_as_leader`, of a client's batch; but one that must be opened first is not appended.

        What nearly every batch is goes in one go: sound, within every limit, for the active segment, next in its producer's order. Of all others
        nothing is changed here; `plan_client` says what is unusual or wrong.
        """
        state, active, size = self._state, self._segments.active, len(data)
        limits = self._limits
        if (
            limits is None
            or limits.config is not state.config
            or limits.segment is not active
            or not limits.from_ms <= now_ms <= limits.until_ms
            or limits.is_follower
        ):
            limits = self._new_limits(now_ms, is_follower=False)
        if limits is None or size < HEADER_SIZE:
            return self._append_unusual(data, leader_epoch, now_ms, commits=commits)
        fields = _HEADER(data)
        _, length, _, _, crc, attributes, delta, since, until, producer_id, epoch, sequence, _ = fields
        first = state.log_end_offset
        last = first + delta
        earliest, latest = limits.earliest, limits.latest
        if (
            attributes > HIGHEST_CODEC
            or not is_sound_header(fields, size)
            or size > limits.batch_bytes
            or active.size + size > limits.end_position
            or last > limits.last_offset
            or not earliest <= since <= latest
            or not earliest <= until <= latest
            or leader_epoch != limits.leader_epoch
        ):
            self._limits = None
            return self._append_unusual(data, leader_epoch, now_ms, commits=commits)
        has_producer = producer_id != NO_PRODUCER_ID
        producer = state.producers.awaiting(producer_id, epoch, sequence) if has_producer else None
        if (has_producer and producer is None) or crc32c(data[ATTRIBUTES_POSITION:]) != crc:
            return self._append_unusual(data, leader_epoch, now_ms, commits=commits)
        _SET_PLACE(data, 0, first, length, leader_epoch)
        try:
            active.append_one(data, first, last, until, limits.index_interval_bytes)
        except DiskFull as fault:
            return self._writer.refuse_for_space(fault)
        if producer is not None:
            producer.add(sequence, delta, first, until)
        state.log_end_offset = state.producers.end_offset = end = last + 1
        if last > limits.unsynced_offset or not commits:
            return self._writer.added(first, last, size, commits=commits)
        state.high_watermark = end
        if state.producers.unreplicated:
            state.producers.high_watermark_moved(end)
        return appended((first, last, NO_TIMESTAMP, state.log_start_offset, size, False, False))

    def append_checked(
        self, checked: CheckedBatch | AppendRefused, *, leader_epoch: int, now_ms: int, commits: bool = False
    ) -> Appended | AppendRefused:
        """Write a batch whose `Opening` is over."""
        if isinstance(checked, AppendRefused):
            return checked
        plan = self._state.plan_checked(checked, leader_epoch=leader_epoch)
        return self._writer.write_planned(plan, now_ms, commits=commits)

    def _append_unusual(
        self, batches: memoryview, leader_epoch: int, now_ms: int, *, commits: bool
    ) -> Appended | AppendRefused | Opening:
        plan = self._state.plan_client(batches, leader_epoch=leader_epoch, now_ms=now_ms)
        return plan if isinstance(plan, Generator) else self._writer.write_planned(plan, now_ms, commits=commits)

    def append_as_follower(self, batches: memoryview, *, leader_epoch: int, now_ms: int) -> Appended | AppendRefused:
        """Write the leader's batches byte for byte, up to the first bad or cut-off one; an empty log that begins inside the first of them begins with it."""
        if self.owner.is_being_cut:
            return BEING_CUT
        added = self._add_followed(batches, leader_epoch, now_ms)
        if added is not None:
            return added
        state = self._state
        log_start = state.log_start_offset
        if log_start == state.log_end_offset and len(batches) >= HEADER_SIZE:
            first = read_header(batches)
            if 0 <= first.base_offset < log_start <= first.last_offset and batch_is_sound(batches, first):
                self.truncate_fully_and_start_at(first.base_offset)
        plan = state.plan_follower(batches, leader_epoch=leader_epoch)
        done = plan if isinstance(plan, AppendRefused) else self._writer.write(plan, now_ms)
        if state.log_start_offset < log_start <= state.log_end_offset:
            state.raise_log_start(log_start)
        return done

    # --- reading ---

    def read_slice(
        self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool
    ) -> FileSlice | OutOfRange:
        """Whole batches as they lie in one segment's file, from the one that holds `offset` on, below `upper_offset`."""
        state = self._state
        end_offset = state.log_end_offset
        if offset < state.log_start_offset or offset > end_offset:
            return OutOfRange(log_start_offset=state.log_start_offset, log_end_offset=end_offset)
        upper = upper_offset if upper_offset < end_offset else end_offset
        segments = self._segments
        segment = segments.active
        if offset >= upper:
            return FileSlice(None, 0, 0, offset, segment.base_offset)
        start = segment.starts.get(offset)
        if start is not None and start < segment.size:  # a reader goes on
            return segments.slice_of(segment, offset, start, upper, max_bytes, min_one_batch)
        bases, in_order = segments.bases, segments.in_order
        index = len(bases) - 1 if offset >= bases[-1] else bisect_right(bases, offset) - 1
        while index < len(in_order):
            segment = in_order[index]
            if segment.base_offset >= upper:
                break
            start = segment.position_of(offset) if offset > segment.base_offset else 0
            if start < segment.size:
                return segments.slice_of(segment, offset, start, upper, max_bytes, min_one_batch)
            index += 1
        return FileSlice(None, 0, 0, offset, segments.active.base_offset)

    def read_bytes(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> bytes | OutOfRange:
        """`read_slice` and the bytes of it."""
        found = self.read_slice(offset, max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch)
        return found if isinstance(found, OutOfRange) else found.read()

    def offset_for_timestamp(self, timestamp: int) -> Search[TimestampAndOffset | None]:
        """The first record whose timestamp is at least `timestamp`."""
        return lookups.of_log(self, lambda: lookups.offset_for_timestamp(self.segments, self._state, timestamp))

    def max_timestamp(self) -> Search[TimestampAndOffset | None]:
        """The first record with the highest timestamp."""
        return lookups.of_log(self, lambda: lookups.max_timestamp(self.segments, self._state))

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> Sequence[AbortedTransaction]:
        """Aborted transactions that overlap [start, upper)."""
        return lookups.aborted_transactions(self.segments, start_offset, upper_offset)

    # --- cutting and retention ---

    def truncate_to(self, offset: int) -> bool:
        """Cut so that the log ends at or before `offset`, durably; producer state and epochs follow (K13, K35)."""
        state = self._state
        if offset >= state.log_end_offset:
            state.epochs.truncate_from_end(offset)
            return False
        if offset <= self._segments.bases[0]:
            self.truncate_fully_and_start_at(offset)
            return True
        self._limits = None
        self._trimmer.cut(offset)
        return True

    def begin_cut(self, offset: int, *, starts_over: bool) -> CutOfLog:
        """The log's part of a cut of many; until that is over, nobody may use the log."""
        self._limits = None
        return CutOfLog(self._files, self, self._state, self._segments, offset=offset, starts_over=starts_over)

    @property
    def is_being_cut(self) -> bool:
        """The log is part of a cut that is not over."""
        return self.owner.is_being_cut

    def after_cut(self, go_on: Callable[[], None]) -> bool:
        """True if the log is part of such a cut: `go_on` is called at its end."""
        return self.owner.after_cut(go_on)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything, durably; the next record gets `offset`."""
        self._limits = None
        self._trimmer.start_over(offset, log_start_offset=offset if log_start_offset is None else log_start_offset)

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
        return self._trimmer.delete_old(now_ms)

    def delete_segments_below(self, offset: int) -> int:
        """Raise the log start to `offset` and drop whole segments below, durably; the number of segments removed."""
        return self._trimmer.delete_below(offset)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Compaction: `new` takes the place of `old`, which follow each other and begin at the same base offset."""
        self._segments.replace(old, new)

    # --- flushing and rest ---

    def write_topic_id(self) -> None:
        """Write `partition.metadata` to the page cache; the first flush, which is due at once, makes it durable."""
        write_topic_id(self._files, self.path, self.topic_id)
        self.distrust_names()

    def distrust_names(self) -> None:
        """The process before may have died ahead of the first flush: the next one makes the directory and the topic id durable again (D2)."""
        self._flush.name_written(f"{self.path}/{PARTITION_METADATA}")
        self._segments.active.names_changed = self._flush.is_new = True
        self.owner.wake()

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end, unless the active one is empty and begins there."""
        self._segments.roll(now_ms)

    def maintain(self, now_ms: int) -> bool:
        """Remove files whose delay is over. True if the log must be looked at again though nothing new happens to it."""
        if self._flush.running == 0:
            self.retired.remove_due(now_ms)
        return self._flush.is_expected() or self.retired.is_waiting

    def forget_idle_indexes(self) -> None:
        """Called now and then: what nobody used for a while goes out of memory."""
        self._segments.forget_idle()

    def close(self, *, clean: bool) -> None:
        """Give files back; jobs under way come to nothing. With `clean`, write indexes, epoch table and a producer snapshot, and sync everything first."""
        if self.is_closed:
            return
        if clean and (job := self.prepare_stop()) is not None:
            job.run_all()
            self.flushed(job.upto)
        with self.owner.closing:
            self.is_closed = self._flush.is_closed = True
        self.retired.close(remove=clean)
        for segment in self.segments:
            segment.close()

    def prepare_stop(self) -> SegmentFlush | None:
        """Write indexes and a producer snapshot; the job that syncs everything, None if all is durable. Nothing may be appended after it. Raises StorageFault."""
        active = self._segments.active
        if active.become_inactive():
            self._flush.index_written(active)
        self._segments.take_producer_snapshot()
        return self.prepare_flush()
