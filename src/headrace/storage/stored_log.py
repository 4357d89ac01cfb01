"""One partition's log on disk: what `PartitionLog` decides, done to its segments.

The hot path: `append_as_leader` and `read_slice`. Nothing here waits for the disk but what must be durable before the next append:
cutting, and starting anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from headrace.core.error_code import ErrorCode
from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID, TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import DiskFull, Files, Rng
from headrace.log.config import LogConfig
from headrace.log.epochs import EpochTable
from headrace.log.partition_log import WritePlan
from headrace.log.ports import (
    AbortedTransaction,
    ActiveProducer,
    Appended,
    AppendRefused,
    FileSlice,
    Origin,
    OutOfRange,
    TimestampAndOffset,
)
from headrace.log.producers import ProducerStates
from headrace.log.retention import SegmentAge, deletable
from headrace.log.segments import SegmentFacts, must_roll
from headrace.records.batch import LOG_OVERHEAD
from headrace.storage import lookups
from headrace.storage.checkpoints import topic_id_text
from headrace.storage.flushing import SegmentFlush
from headrace.storage.layout import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    METADATA_TOPIC,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    offset_file,
    partition_directory,
)
from headrace.storage.producer_snapshot import write_snapshot
from headrace.storage.recovery import Loaded, LoadHints, load, replay_producers
from headrace.storage.retired import RetiredSegments
from headrace.storage.segment_file import Segment

_KNOWN_POSITIONS = 64
MAX_UNSYNCED_METADATA_BYTES = 16 * 1024 * 1024


def _nothing() -> None:
    """The hook of a log without a recovery-point checkpoint."""


class StoredLog:
    """One partition's log in its directory; implements `headrace.log.ports.PartitionLogPort`.

    `persist_recovery_point` is called when the durable end was lowered and must be on disk before the next append.
    """

    __slots__ = (
        "_active",
        "_bases",
        "_clean_at_ms",
        "_files",
        "_flush_limit",
        "_is_new",
        "_notes",
        "_positions",
        "_rng",
        "_segments",
        "_snapshots",
        "_state",
        "_stored_epochs",
        "_unsynced_names",
        "_wants_flush_to",
        "directory",
        "generation",
        "is_closed",
        "path",
        "persist_recovery_point",
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
        self._notes = loaded.notes
        self._positions: dict[int, int] = {}
        self._snapshots = list(loaded.snapshots)
        self._stored_epochs = loaded.state.epochs.version if loaded.epochs_stored else -1
        self._unsynced_names: list[str] = []
        self._flush_limit = 0
        self._is_new = False
        self._wants_flush_to = 0
        self._clean_at_ms = 0
        self.generation = 0
        self.is_closed = False
        self.retired = RetiredSegments(files, self.path)
        self.persist_recovery_point: Callable[[], None] = _nothing
        loaded.state.producers.high_watermark_moved(loaded.state.high_watermark)

    @classmethod
    def open(
        cls,
        files: Files,
        partition: TopicPartition,
        *,
        directory: str,
        config: LogConfig,
        now_ms: int,
    ) -> StoredLog:
        """A log that stands alone, such as `__cluster_metadata-0`: made if there is none, else every batch is checked.

        `directory` is the log directory that holds it. Raises StorageFault; RottenLog if a synced part is damaged.
        """
        path = f"{directory}/{partition_directory(partition)}"
        if not files.exists(path):
            files.mkdir(path)
            files.fsync_dir(directory)
        is_metadata = partition.topic == METADATA_TOPIC
        hints = LoadHints(
            now_ms=now_ms,
            is_contiguous=is_metadata,
            max_unsynced_bytes=MAX_UNSYNCED_METADATA_BYTES if is_metadata else None,
        )
        topic_id = METADATA_TOPIC_ID if is_metadata else ZERO_UUID
        return cls(files, partition, load(files, path, config, hints), directory=directory, topic_id=topic_id)

    # -- where it begins and ends ------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """Settings in force."""
        return self._state.config

    def update_config(self, config: LogConfig) -> None:
        """Obey other settings from now on."""
        self._state.config = config

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
    def high_watermark(self) -> int:
        """First offset that is not committed."""
        return self._state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """What read-committed readers may see ends here."""
        return self._state.last_stable_offset

    @property
    def durable_end_offset(self) -> int:
        """Everything below is synced."""
        return self._state.durable_end_offset

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

    def advance_high_watermark(self, to: int) -> int:
        """Raise the high watermark, at most to the log end."""
        state = self._state
        if to <= state.high_watermark:
            return state.high_watermark
        return state.set_high_watermark(to)

    def set_high_watermark(self, to: int) -> int:
        """Set it within [log start, log end], also downwards."""
        return self._state.set_high_watermark(to)

    # -- writing -----------------------------------------------------------------------------------------------

    def append_as_leader(
        self, batches: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended | AppendRefused:
        """Check the batches, set offsets and epochs in place, and write them to the page cache."""
        state = self._state
        if origin is Origin.CLIENT:
            plan = state.plan_client(batches, leader_epoch=leader_epoch, now_ms=now_ms)
        else:
            plan = state.plan_internal(batches, leader_epoch=leader_epoch, origin=origin)
        if not isinstance(plan, WritePlan):
            return plan
        return self._write(plan, now_ms)

    def append_as_follower(self, batches: memoryview, *, leader_epoch: int, now_ms: int) -> Appended | AppendRefused:
        """Write the leader's batches byte for byte, up to the first bad or cut-off one."""
        plan = self._state.plan_follower(batches, leader_epoch=leader_epoch)
        if isinstance(plan, AppendRefused):
            return plan
        return self._write(plan, now_ms)

    def _write(self, plan: WritePlan, now_ms: int) -> Appended | AppendRefused:
        data, batches, first, last, max_timestamp, _, append_time = plan
        state = self._state
        size = len(data)
        active = self._active
        if self._must_roll(active, size, last, (now_ms, max_timestamp)):
            self.roll(now_ms)
            active = self._active
        try:
            active.append(data, batches, state.config.index_interval_bytes)
        except DiskFull as fault:
            return AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
        aborted = state.written(plan)
        if aborted is not None:
            for entry in aborted:
                active.txn_index.append(entry)
        return Appended(first, last, append_time, state.log_start_offset, size)

    def _must_roll(self, active: Segment, size: int, last_offset: int, clock: tuple[int, int]) -> bool:
        if active.size == 0:
            return last_offset - active.base_offset > 0x7FFFFFFF
        facts = SegmentFacts(
            active.base_offset,
            active.size,
            active.created_ms,
            active.first_timestamp,
            len(active.index),
            len(active.time_index),
            active.jitter_ms,
        )
        return must_roll(facts, self._state.config, size=size, last_offset=last_offset, clock=clock)

    def write_topic_id(self) -> None:
        """Write `partition.metadata` to the page cache; the first flush, which is due at once, makes it durable."""
        name = f"{self.path}/{PARTITION_METADATA}"
        file = self._files.open(name, create=True, truncate=True)
        try:
            file.pwrite(topic_id_text(self.topic_id), 0)
        finally:
            file.close()
        self._unsynced_names.append(name)
        self._active.names_changed = self._is_new = True

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end, unless the active one is empty and begins there."""
        active, end = self._active, self._state.log_end_offset
        if active.size == 0 and active.base_offset == end:
            return
        active.become_inactive()
        for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
            self._unsynced_names.append(offset_file(self.path, active.base_offset, suffix))
        self._take_snapshot()
        jitter = self._state.config.segment_jitter_ms
        drawn = self._rng.randrange(0, jitter) if self._rng is not None and jitter > 0 else 0
        self._active = Segment.create(self._files, self.path, end, now_ms=now_ms, jitter_ms=drawn)
        self._segments.append(self._active)
        self._bases.append(end)
        self._positions.clear()
        self._wants_flush_to = end

    def _take_snapshot(self) -> None:
        end = self._state.log_end_offset
        if self._snapshots and self._snapshots[-1] == end:
            return
        self._unsynced_names.append(write_snapshot(self._files, self.path, end, self._state.producers))
        self._snapshots.append(end)
        self._active.names_changed = True

    # -- syncing -----------------------------------------------------------------------------------------------

    def prepare_flush(self) -> SegmentFlush | None:
        """A job that makes everything appended so far durable; None if it is already."""
        state = self._state
        end = state.log_end_offset
        epochs_changed = state.epochs.version != self._stored_epochs
        if end <= state.durable_end_offset and not self._unsynced_names and not epochs_changed:
            return None
        first = max(bisect_right(self._bases, state.durable_end_offset) - 1, 0)
        dirty = self._segments[first:]
        job = SegmentFlush(
            self._files,
            self.path,
            upto=end,
            logs=[segment.log for segment in dirty],
            named=self._unsynced_names,
            epochs=state.epochs.entries() if epochs_changed else None,
        )
        if not any(segment.names_changed for segment in dirty):
            job.without_names()
        for segment in dirty:
            segment.names_changed = False
        self._unsynced_names = []
        self._is_new = False
        self._stored_epochs = state.epochs.version
        self._flush_limit = end
        return job

    def flushed(self, upto: int) -> None:
        """A flush job ended well: raise the durable end."""
        state = self._state
        state.durable_end_offset = max(state.durable_end_offset, min(upto, self._flush_limit, state.log_end_offset))

    def is_flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages`, `flush.ms` or a roll asks for a flush."""
        state = self._state
        unflushed = state.log_end_offset - state.durable_end_offset
        if unflushed <= 0:
            self._clean_at_ms = now_ms
            return self._is_new
        config = state.config
        return (
            self._wants_flush_to > state.durable_end_offset
            or unflushed >= config.flush_messages
            or now_ms - self._clean_at_ms >= config.flush_ms
        )

    # -- reading -----------------------------------------------------------------------------------------------

    def read_slice(
        self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool
    ) -> FileSlice | OutOfRange:
        """Whole batches as they lie in one segment's file, from the one that holds `offset` on, below `upper_offset`."""
        state = self._state
        end_offset = state.log_end_offset
        if offset < state.log_start_offset or offset > end_offset:
            return OutOfRange(log_start_offset=state.log_start_offset, log_end_offset=end_offset)
        upper = min(upper_offset, end_offset)
        if offset >= upper:
            return FileSlice(None, 0, 0, offset, self._active.base_offset)
        index = len(self._bases) - 1 if offset >= self._bases[-1] else bisect_right(self._bases, offset) - 1
        while index < len(self._segments):
            segment = self._segments[index]
            if segment.base_offset >= upper:
                break
            start = self._position_of(segment, offset)
            if start < segment.size:
                return self._slice(segment, offset, start, self._end_in(segment, upper), max_bytes, min_one_batch)
            index += 1
        return FileSlice(None, 0, 0, offset, self._active.base_offset)

    def _slice(
        self,
        segment: Segment,
        offset: int,
        start: int,
        end: int,
        max_bytes: int,
        min_one_batch: bool,  # noqa: FBT001 - hot path
    ) -> FileSlice:
        size = end - start
        if size > max_bytes:
            size = max(max_bytes, 0)
            if min_one_batch and size < segment.size - start:
                first = next(segment.batches(start, scan_bytes=61), None)
                if first is not None:
                    size = max(size, min(first[1].length + LOG_OVERHEAD, end - start))
        if size <= 0:
            return FileSlice(None, 0, 0, offset, segment.base_offset)
        return FileSlice(segment.log, start, size, offset, segment.base_offset)

    def _position_of(self, segment: Segment, offset: int) -> int:
        """Position of the batch that holds `offset` (or the next one); the segment's size if there is none."""
        if offset <= segment.base_offset:
            return 0
        if segment is self._active:
            known = self._positions.get(offset)
            if known is not None:
                return known
        found = segment.find(offset)
        return segment.size if found is None else found[0]

    def _end_in(self, segment: Segment, upper: int) -> int:
        """Position behind the last batch of `segment` below `upper`; remembered, as the next read begins there."""
        if segment is not self._active:
            following = self._bases[bisect_right(self._bases, segment.base_offset)]
            return segment.size if upper >= following else self._position_of(segment, upper)
        end = segment.size if upper == self._state.log_end_offset else self._position_of(segment, upper)
        positions = self._positions
        if upper not in positions:
            if len(positions) >= _KNOWN_POSITIONS:
                del positions[next(iter(positions))]
            positions[upper] = end
        return end

    def read_bytes(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> bytes | OutOfRange:
        """`read_slice` and the bytes of it."""
        found = self.read_slice(offset, max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch)
        return found if isinstance(found, OutOfRange) else found.read()

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record whose timestamp is at least `timestamp`."""
        return lookups.offset_for_timestamp(self._segments, self._state, timestamp)

    def max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the highest timestamp."""
        return lookups.max_timestamp(self._segments, self._state)

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> Sequence[AbortedTransaction]:
        """Aborted transactions that overlap [start, upper)."""
        return lookups.aborted_transactions(self._segments, start_offset, upper_offset)

    # -- epochs and producers ----------------------------------------------------------------------------------

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """The largest known epoch at or below `epoch`, and where it ended (KIP-101, KIP-279)."""
        return self._state.epochs.end_offset_for(epoch, self._state.log_end_offset)

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at `offset`."""
        return self._state.epochs.epoch_at(offset)

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads `epoch` from the log end on."""
        self._state.epochs.assign(epoch, self._state.log_end_offset)

    def active_producers(self) -> Sequence[ActiveProducer]:
        """Producers whose state has not expired, by id."""
        return self._state.producers.active()

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`."""
        self._state.producers.expire(now_ms, self._state.config.producer_id_expiration_ms)

    @property
    def producers(self) -> ProducerStates:
        """What the log knows of its producers."""
        return self._state.producers

    @property
    def epochs(self) -> EpochTable:
        """Where each leader epoch began."""
        return self._state.epochs

    # -- removing ----------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cut so that the log ends at or before `offset`, durably; producer state and epochs follow (K13, K35)."""
        state = self._state
        if offset >= state.log_end_offset:
            state.epochs.truncate_from_end(offset)
            return False
        if offset <= self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return True
        self._before_cut(offset)
        keep = bisect_right(self._bases, offset)
        if self._bases[keep - 1] == offset:
            keep -= 1
        self._remove_newest(self._segments[keep:])
        segment = self._segments[-1]
        found = segment.find(offset)
        position, end = (segment.size, offset) if found is None else (found[0], min(offset, found[1].base_offset))
        segment.cut(position, end)
        self._finish_cut(self._end_of(segment))
        return True

    def _end_of(self, segment: Segment) -> int:
        """End offset of the last batch in `segment`."""
        entry = segment.index.last()
        end = segment.base_offset
        for _, header in segment.batches(entry[1] if entry else 0):
            end = header.next_offset
        return end

    def _before_cut(self, offset: int) -> None:
        """The durable end falls first, and snapshots of what goes are removed: a crash must not bring them back."""
        state = self._state
        self.generation += 1
        self._positions.clear()
        self._flush_limit = min(self._flush_limit, offset)
        if state.durable_end_offset > offset:
            state.durable_end_offset = offset
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
        self._before_cut(min(offset, self._bases[0]))
        old, self._segments, self._bases = self._segments, [], []
        for segment in reversed(old):
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                self._files.unlink(offset_file(self.path, segment.base_offset, suffix))
        for at in self._snapshots:
            self._files.unlink(offset_file(self.path, at, SNAPSHOT))
        self._files.unlink(f"{self.path}/{LEADER_EPOCHS}")
        self._files.fsync_dir(self.path)
        self.retired.unlinked(old)
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
        if count:
            if count == len(segments):
                self.roll(now_ms)
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

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Compaction: `new` takes the place of `old`, which follow each other and begin at the same base offset."""
        self.generation += 1
        at = self._bases.index(old[0].base_offset)
        self._segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]
        self.retired.unlinked(old)

    def maintain(self, now_ms: int) -> None:
        """Write index entries behind, remove files whose delay is over, forget idle producers. Cheap."""
        self._active.store_indexes()
        self.retired.remove_due(now_ms)
        if len(self._state.producers):
            self.expire_producers(now_ms)

    def close(self, *, clean: bool) -> None:
        """Give files back. With `clean`, write indexes, epoch table and a producer snapshot, and sync everything first."""
        if self.is_closed:
            return
        self.is_closed = True
        if clean:
            self.sync_all()
        self.retired.close(remove=clean)
        for segment in self._segments:
            segment.close()

    def sync_all(self) -> None:
        """Write indexes, epoch table and a producer snapshot, and sync everything; blocks. Nothing may be appended after it."""
        active, state = self._active, self._state
        if state.log_end_offset > state.durable_end_offset or active.names_changed:
            active.become_inactive()
            for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
                self._unsynced_names.append(offset_file(self.path, active.base_offset, suffix))
        self._take_snapshot()
        job = self.prepare_flush()
        if job is not None:
            job.run()
            self.flushed(job.upto)
