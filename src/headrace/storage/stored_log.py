"""One partition's log on disk: what `PartitionLog` decides, done to its segments.

The hot path: `append_as_leader` and `read_slice`. Nothing here waits for the disk but what must be durable before the next append:
cutting, and starting anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from functools import partial
from struct import Struct

from headrace.core.error_code import ErrorCode
from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID, TopicPartition
from headrace.core.ports import DiskFull, Files
from headrace.log.config import NO_LIMIT, LogConfig
from headrace.log.partition_log import WritePlan
from headrace.log.ports import (
    AbortedTransaction,
    Appended,
    AppendRefused,
    CheckedBatch,
    FileSlice,
    Opening,
    Origin,
    OutOfRange,
    TimestampAndOffset,
)
from headrace.log.segments import MAX_RELATIVE_OFFSET, TIME_ENTRY_BYTES, SegmentFacts, must_roll
from headrace.log.validation import HIGHEST_CODEC, is_sound_header
from headrace.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    batch_is_sound,
    read_header,
)
from headrace.records.crc import crc32c
from headrace.records.walk import Search, finish
from headrace.storage import lookups
from headrace.storage.checkpoints import topic_id_text
from headrace.storage.flushing import SegmentFlush, ToSync
from headrace.storage.layout import (
    METADATA_TOPIC,
    PARTITION_METADATA,
    partition_directory,
)
from headrace.storage.recovery import LoadHints, load
from headrace.storage.renewal import renew_unsynced
from headrace.storage.room import make_room
from headrace.storage.segment_file import Segment
from headrace.storage.trimming import TrimmableLog

_HEADER = HEADER.unpack_from
_SET_PLACE = Struct(">qii").pack_into  # base offset, length, leader epoch
_appended: Callable[[tuple[object, ...]], Appended] = partial(tuple.__new__, Appended)
_KNOWN_POSITIONS = 64
_CUT_OFF_SHARE_BITS = 3
"""A slice ends with a whole batch when no more than an eighth of what was asked for is lost by that."""
MAX_UNSYNCED_METADATA_BYTES = 16 * 1024 * 1024


class StoredLog(TrimmableLog):
    """One partition's log in its directory; implements `headrace.log.ports.PartitionLogPort`."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        files: Files,
        partition: TopicPartition,
        *,
        directory: str,
        config: LogConfig,
        now_ms: int,
        recovery_point: int = 0,
    ) -> StoredLog:
        """A log that stands alone, such as `__cluster_metadata-0`: made if there is none, else every batch is checked.

        `directory` is the log directory that holds it; what lies below `recovery_point` is known to be synced. Raises StorageFault; RottenLog if a synced part is damaged.
        """
        path = f"{directory}/{partition_directory(partition)}"
        if not files.exists(path):
            files.mkdir(path)
            files.fsync_dir(directory)
        is_metadata = partition.topic == METADATA_TOPIC
        hints = LoadHints(
            now_ms=now_ms,
            recovery_point=recovery_point,
            is_contiguous=is_metadata,
            max_unsynced_bytes=MAX_UNSYNCED_METADATA_BYTES if is_metadata else None,
        )
        topic_id = METADATA_TOPIC_ID if is_metadata else ZERO_UUID
        loaded = load(files, path, config, hints)
        durable_end = loaded.state.durable_end_offset
        if is_metadata and durable_end < loaded.state.log_end_offset:
            renew_unsynced(loaded.segments, durable_end=durable_end, max_bytes=MAX_UNSYNCED_METADATA_BYTES)
        return cls(files, partition, loaded, directory=directory, topic_id=topic_id)

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
            return self._append_planned(plan, now_ms, commits=commits)
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
        state, active, size = self._state, self._active, len(data)
        room = self._room
        if room is None or room.config is not state.config or room.segment is not active:
            room = self._room = make_room(state.config, active, state)
        if room is None or size < HEADER_SIZE:
            return self._append_unusual(data, leader_epoch, now_ms, commits=commits)
        fields = _HEADER(data)
        _, length, _, _, crc, attributes, delta, since, until, producer_id, epoch, sequence, _ = fields
        first = state.log_end_offset
        last = first + delta
        if (
            attributes > HIGHEST_CODEC
            or not is_sound_header(fields, size)
            or size > room.batch_bytes
            or active.size + size > room.end_position
            or last > room.last_offset
            or not now_ms - room.before_ms <= since <= now_ms + room.after_ms
            or not now_ms - room.before_ms <= until <= now_ms + room.after_ms
            or not 0 <= until <= room.last_timestamp
            or leader_epoch != room.leader_epoch
        ):
            self._room = None
            return self._append_unusual(data, leader_epoch, now_ms, commits=commits)
        has_producer = producer_id != NO_PRODUCER_ID
        producer = state.producers.awaiting(producer_id, epoch, sequence) if has_producer else None
        if (has_producer and producer is None) or crc32c(data[ATTRIBUTES_POSITION:]) != crc:
            return self._append_unusual(data, leader_epoch, now_ms, commits=commits)
        _SET_PLACE(data, 0, first, length, leader_epoch)
        try:
            active.append_one(data, last, until, room.index_interval_bytes)
        except DiskFull as fault:
            return self._refuse_for_space(fault)
        if producer is not None:
            producer.add(sequence, delta, first, until)
        state.log_end_offset = state.producers.end_offset = end = last + 1
        if last > room.unsynced_offset or not commits:
            return self._added(first, last, size, commits=commits)
        state.high_watermark = end
        if state.producers.unreplicated:
            state.producers.high_watermark_moved(end)
        return _appended((first, last, NO_TIMESTAMP, state.log_start_offset, size, False, False))

    def _added(self, first: int, last: int, size: int, *, commits: bool) -> Appended:
        """A batch was added that may have to be synced, or that others must copy, before it is acknowledged."""
        must_sync = self._must_sync(first)
        if commits:
            self.advance_high_watermark(self.acknowledged_end_offset)
        return _appended((first, last, NO_TIMESTAMP, self._state.log_start_offset, size, False, must_sync))

    def append_checked(
        self, checked: CheckedBatch | AppendRefused, *, leader_epoch: int, now_ms: int, commits: bool = False
    ) -> Appended | AppendRefused:
        """Write a batch whose `Opening` is over."""
        if isinstance(checked, AppendRefused):
            return checked
        plan = self._state.plan_checked(checked, leader_epoch=leader_epoch)
        return self._append_planned(plan, now_ms, commits=commits)

    def _append_unusual(
        self, batches: memoryview, leader_epoch: int, now_ms: int, *, commits: bool
    ) -> Appended | AppendRefused | Opening:
        plan = self._state.plan_client(batches, leader_epoch=leader_epoch, now_ms=now_ms)
        return plan if isinstance(plan, Generator) else self._append_planned(plan, now_ms, commits=commits)

    def _append_planned(
        self, plan: WritePlan | AppendRefused | Appended, now_ms: int, *, commits: bool
    ) -> Appended | AppendRefused:
        if isinstance(plan, WritePlan):
            done = self._write(plan, now_ms)
            if commits:
                self.advance_high_watermark(self.acknowledged_end_offset)
            return done
        if isinstance(plan, Appended) and plan.last_offset >= self.acknowledged_end_offset:
            return plan._replace(waits_for_sync=True)
        return plan

    def append_as_follower(self, batches: memoryview, *, leader_epoch: int, now_ms: int) -> Appended | AppendRefused:
        """Write the leader's batches byte for byte, up to the first bad or cut-off one.

        An empty log that begins inside the first batch (the leader's log start lies there) begins with that batch.
        """
        state = self._state
        log_start = state.log_start_offset
        if log_start == state.log_end_offset and len(batches) >= HEADER_SIZE:
            first = read_header(batches)
            if 0 <= first.base_offset < log_start <= first.last_offset and batch_is_sound(batches, first):
                self.truncate_fully_and_start_at(first.base_offset)
        plan = state.plan_follower(batches, leader_epoch=leader_epoch)
        done = plan if isinstance(plan, AppendRefused) else self._write(plan, now_ms)
        if state.log_start_offset < log_start <= state.log_end_offset:
            state.raise_log_start(log_start)
        return done

    def _write(self, plan: WritePlan, now_ms: int) -> Appended | AppendRefused:
        data, batches, first, last, max_timestamp, _, append_time = plan
        state = self._state
        size = len(data)
        active = self._active
        try:
            if self._must_roll(active, size, last, (now_ms, max_timestamp)):
                self.roll(now_ms)
                if last - self._active.base_offset > MAX_RELATIVE_OFFSET:
                    self._leap(first, now_ms)
                active = self._active
            active.append(data, batches, state.config.index_interval_bytes)
        except DiskFull as fault:
            return self._refuse_for_space(fault)
        aborted = state.written(plan)
        if aborted is not None:
            for entry in aborted:
                active.txn_index.append(entry)
        return Appended(first, last, append_time, state.log_start_offset, size, False, self._must_sync(first))  # noqa: FBT003 - hot path

    def _leap(self, to: int, now_ms: int) -> None:
        """Go on at `to`, because compaction on the leader left a gap wider than a segment's offsets; durably, so that no recovery takes the gap for a torn write."""
        self._state.log_end_offset = self._state.producers.end_offset = to
        self.roll(now_ms)
        job = self.prepare_flush()
        if job is not None:
            job.run_all()
            self.flushed(job.upto)
        self.persist_recovery_point()

    def _refuse_for_space(self, fault: DiskFull) -> AppendRefused:
        self.refused_for_space = str(fault)
        self._stir()
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
        return must_roll(facts, config, size=size, last_offset=last_offset, clock=clock)

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
        self._stir()

    def distrust_names(self) -> None:
        """The process before may have died ahead of the first flush: the next one makes the directory and the topic id durable again (D2)."""
        self._unsynced_names.append(f"{self.path}/{PARTITION_METADATA}")
        self._active.names_changed = self._is_new = True
        self._stir()

    def prepare_flush(self) -> SegmentFlush | None:
        """A job that makes everything appended so far durable; None if it is already. StorageFault after a sync that failed (K31)."""
        if self._syncs.has_failed:
            raise self._syncs.fault(self.path)
        state = self._state
        end = state.log_end_offset
        epochs_changed = state.epochs.version != self._stored_epochs
        if end <= state.durable_end_offset and not self._unsynced_names and not epochs_changed:
            return None
        first = max(bisect_right(self._bases, state.durable_end_offset) - 1, 0)
        dirty = [*self.retired.condemned, *self._segments[first:]]
        work = ToSync(
            logs=[segment.log for segment in dirty],
            named=self._unsynced_names,
            syncs_names=any(segment.names_changed for segment in dirty),
            parent=self.directory if self._is_new else None,
            epochs=state.epochs.entries() if epochs_changed else None,
        )
        job = SegmentFlush(self._files, self.path, work, upto=end, syncs=self._syncs, is_closed=lambda: self.is_closed)
        self._syncs_running += 1
        for segment in dirty:
            segment.names_changed = False
        self._unsynced_names = []
        self._syncing_indexes += self._unsynced_indexes
        self._unsynced_indexes = []
        self._is_new = False
        self._stored_epochs = state.epochs.version
        self._flush_limit = end
        return job

    def flushed(self, upto: int) -> None:
        """A flush job ended well: raise the durable end."""
        state = self._state
        self._syncs_running = max(self._syncs_running - 1, 0)
        if self._syncs_running == 0:
            self._syncing_indexes = []
        if self._syncs.lacks_epochs:
            self._stored_epochs = -1
        durable = state.durable_end_offset = max(
            state.durable_end_offset, min(upto, self._flush_limit, state.log_end_offset)
        )
        if self._unacknowledged >= 0:
            self._unacknowledged = -1 if durable >= state.log_end_offset else max(durable, self._unacknowledged)

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
                return self._slice(segment, offset, start, upper, max_bytes, min_one_batch)
            index += 1
        return FileSlice(None, 0, 0, offset, self._active.base_offset)

    def _slice(
        self,
        segment: Segment,
        offset: int,
        start: int,
        upper: int,
        max_bytes: int,
        min_one_batch: bool,  # noqa: FBT001 - hot path
    ) -> FileSlice:
        end = self._end_in(segment, upper)
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
        elif segment is not self._active:
            has_more = end == segment.size and self._next_base(segment) < upper
        if size <= 0:
            return FileSlice(None, 0, 0, offset, segment.base_offset, has_more)
        return FileSlice(segment.log, start, size, offset, segment.base_offset, has_more)

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

    def _position_of(self, segment: Segment, offset: int) -> int:
        """Position of the batch that holds `offset` (or the next one); the segment's size if there is none."""
        if offset <= segment.base_offset:
            return 0
        if segment is self._active:
            known = self._positions.get(offset)
            if known is not None:
                return known
        return segment.position_of(offset)

    def _next_base(self, segment: Segment) -> int:
        """Where the segment after this one begins; it is not the active one."""
        return self._bases[bisect_right(self._bases, segment.base_offset)]

    def _end_in(self, segment: Segment, upper: int) -> int:
        """Position behind the last batch of `segment` below `upper`; remembered, as the next read begins there."""
        if segment is not self._active:
            return segment.size if upper >= self._next_base(segment) else self._position_of(segment, upper)
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

    def offset_for_timestamp(self, timestamp: int) -> Search[TimestampAndOffset | None]:
        """The first record whose timestamp is at least `timestamp`."""
        return lookups.of_log(self, lambda: lookups.offset_for_timestamp(self._segments, self._state, timestamp))

    def max_timestamp(self) -> Search[TimestampAndOffset | None]:
        """The first record with the highest timestamp."""
        return lookups.of_log(self, lambda: lookups.max_timestamp(self._segments, self._state))

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> Sequence[AbortedTransaction]:
        """Aborted transactions that overlap [start, upper)."""
        return lookups.aborted_transactions(self._segments, start_offset, upper_offset)

    def maintain(self, now_ms: int) -> bool:
        """Remove files whose delay is over. True if the log must be looked at again though nothing new happens to it."""
        if self._syncs_running == 0:
            self.retired.remove_due(now_ms)
        config = self._state.config
        wants_flush = self._is_new or self._wants_flush_to > self._state.durable_end_offset
        has_timer = min(config.flush_ms, config.flush_messages) < NO_LIMIT
        under_way = self._syncs_running > 0 or bool(self._unsynced_indexes) or self.retired.is_waiting
        return wants_flush or has_timer or under_way

    def close(self, *, clean: bool) -> None:
        """Give files back. With `clean`, write indexes, epoch table and a producer snapshot, and sync everything first.

        Jobs of this log that are still under way come to nothing.
        """
        if self.is_closed:
            return
        if clean:
            self.sync_all()
        self.is_closed = True
        self.retired.close(remove=clean)
        for segment in self._segments:
            segment.close()

    def sync_all(self) -> None:
        """Write indexes, epoch table and a producer snapshot, and sync everything; blocks. Nothing may be appended after it. Raises StorageFault."""
        job = self.prepare_stop()
        if job is not None:
            job.run_all()
            self.flushed(job.upto)

    def prepare_stop(self) -> SegmentFlush | None:
        """The writing part of `sync_all`; the job that syncs it, None if all is durable. Raises StorageFault."""
        if self._active.become_inactive():
            self._index_is_unsynced(self._active)
        self._take_snapshot()
        return self.prepare_flush()
