"""What brokers, replication, coordinators and the quorum ask of a partition log.

`PartitionLogPort` is one log; all logs of a node are in `headrace.log.store_ports`. `headrace.storage.stored_log.StoredLog` and
`headrace.storage.log_store.LogStore` are the real ones. All calls are synchronous: they write to the page cache and never
wait for the disk. What waits (`FlushJob`, `CompactionJob`) is handed out as a job that the driver runs in a thread.

Offsets: *end* is exclusive, *last* is inclusive. Times are ms since 1970. A disk that refuses raises `StorageFault`; the
caller then takes the log's directory offline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import File
from headrace.core.values import value_class
from headrace.log.config import LogConfig
from headrace.records.batch import BatchHeader
from headrace.records.walk import Search


class Origin(Enum):
    """Who wrote the batches that are appended; it decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft_leader"


class Appended(NamedTuple):
    """Batches were written (or were there already: `is_duplicate`).

    While it `waits_for_sync` nobody may be told of it (`flush.messages`). `last_offset` is inclusive. `log_append_time` is -1 unless the topic uses LogAppendTime, or, as Kafka tells it, a batch was there already: then it is that one's highest timestamp. `size` is in bytes as stored.
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    size: int
    is_duplicate: bool = False
    waits_for_sync: bool = False


@value_class
class AppendRefused:
    """Nothing was written. `record_errors` are (index of the record in its request, message), as Produce answers them."""

    error: ErrorCode
    message: str
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()


class CheckedBatch(NamedTuple):
    """A batch fit to be appended: its bytes (writable; offset and epoch still to be set) and header.

    `log_append_time` is -1 unless the topic's timestamps are those of the append.
    """

    data: memoryview
    header: BatchHeader
    log_append_time: int


class ProducerEnd(NamedTuple):
    """The epoch of a producer, and the sequence of its last known record there, -1 if none is known."""

    epoch: int
    last_sequence: int


Opening = Search[CheckedBatch | AppendRefused]
"""The check of a batch that must be opened for it."""


class FileSlice(NamedTuple):
    """Whole batches as they lie in a file: `size` bytes of `file` from `position`; the last batch may be cut off.

    `size` 0 means that there is nothing to read yet. `has_more`: there are more bytes below the upper offset, which `max_bytes` or the end of the
    segment kept back. The file stays readable for `file.delete.delay.ms` after its segment was
    deleted; later its `fd` is -1 and reads raise `StorageFault`.
    """

    file: File | None
    position: int
    size: int
    start_offset: int
    segment_base_offset: int
    has_more: bool = False

    def read(self) -> bytes:
        """The bytes, in one copy from the page cache."""
        return b"" if self.file is None or self.size == 0 else self.file.pread(self.size, self.position)


@value_class
class OutOfRange:
    """The asked offset is below the log's start or above its end."""

    log_start_offset: int
    log_end_offset: int


class TimestampAndOffset(NamedTuple):
    """A record's timestamp, its offset, and the leader epoch it was written in (-1 if unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """An aborted transaction of `producer_id`, as Fetch answers it and as `.txnindex` keeps it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ActiveProducer(NamedTuple):
    """One producer's state in this log, as DescribeProducers answers it; -1 stands for *none*."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class FlushJob(Protocol):
    """Work for a thread: make everything below `upto` durable. Afterwards call `PartitionLogPort.flushed(job.upto)` on the loop.

    If `run` raises `StorageFault` the bytes count as lost: take the directory offline, do not run it again (D3).
    """

    @property
    def upto(self) -> int:
        """End offset (exclusive) that will be durable."""

    def run(self) -> None:
        """Sync the files; blocks. Safe beside appends and reads."""


class CompactionJob(Protocol):
    """Work for a thread: write the cleaned segments of one log. Then `finish()` on the loop swaps them in."""

    def run(self) -> None:
        """Read the dirty part and write cleaned files; blocks. Stops early when the log was truncated or deleted."""

    def finish(self, now_ms: int) -> int:
        """Swap the cleaned segments in; returns the bytes saved. Call it also after `run` raised, to clean up."""


class LogCut(NamedTuple):
    """A log that is to end at or before `offset`; with `starts_over` everything in it goes, and the next record gets `offset`."""

    partition: TopicPartition
    offset: int
    starts_over: bool = False


class CutJob(Protocol):
    """The cuts of logs of one log directory, in the order of these calls; each may raise StorageFault, and then the directory must go offline.

    From `LogStorePort.cut` to the end of `finish` nobody may use the logs.
    """

    def look_up(self) -> None:
        """Find where each log is cut; blocks, for a thread."""

    def lower(self) -> None:
        """What lies above counts as gone."""

    def run(self) -> None:
        """Cut, durably; blocks, for a thread."""

    def finish(self) -> None:
        """The logs may be used again."""


class PartitionLogPort(Protocol):
    """One partition's log."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Name and number."""

    @property
    def topic_id(self) -> Uuid:
        """From `partition.metadata`; all zeros if it has none."""

    @property
    def directory(self) -> str:
        """The log directory (of `log.dirs`) that holds this log."""

    @property
    def config(self) -> LogConfig:
        """Settings in force."""

    def update_config(self, config: LogConfig) -> None:
        """Obey other settings from now on."""

    # -- where it begins and ends ------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""

    @property
    def acknowledged_end_offset(self) -> int:
        """The log's end for everybody else: lower than `log_end_offset` while records wait for a sync (`flush.messages`)."""

    @property
    def high_watermark(self) -> int:
        """First offset that is not committed."""

    @property
    def last_stable_offset(self) -> int:
        """Lower of the high watermark and the first offset of the oldest open transaction."""

    @property
    def durable_end_offset(self) -> int:
        """Everything below is synced (Kafka's recovery point)."""

    @property
    def latest_epoch(self) -> int | None:
        """Leader epoch of the last entry of the epoch table, None if it is empty."""

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments. Cost: the segments."""

    @property
    def segment_count(self) -> int:
        """How many segments there are."""

    def advance_high_watermark(self, to: int) -> int:
        """Raise the high watermark to `to`, at most to the log end; lower values change nothing. Returns the new one."""

    def set_high_watermark(self, to: int) -> int:
        """Set it, within [log start, log end], also downwards: for a follower that takes the leader's. Returns the new one."""

    def watch_start(self, moved: Callable[[], None] | None) -> None:
        """Tell `moved` whenever the log start was raised, instead of whoever was told before."""

    # -- writing -----------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batches: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        commits: bool = False,
    ) -> Appended | AppendRefused:
        """Check the batches, give them offsets *in place* (`batches` must be writable), and write them.

        `commits`: nobody else need hold them, so the high watermark follows, as far as may be acknowledged.

        From `Origin.CLIENT`: exactly one batch, checked as Kafka's ProduceRequest and LogValidator do. `Origin.RAFT_LEADER`
        takes several batches whose offsets are already set and follow the log end.
        """

    def append_client(
        self, data: memoryview, *, leader_epoch: int, now_ms: int, commits: bool = False
    ) -> Appended | AppendRefused | Opening:
        """As `append_as_leader`, of a client's batch; but one that must be opened first is not appended: the caller has the search done, then `append_checked`.

        An `Opening` has a copy of the bytes.
        """

    def append_checked(
        self, checked: CheckedBatch | AppendRefused, *, leader_epoch: int, now_ms: int, commits: bool = False
    ) -> Appended | AppendRefused:
        """Write a batch whose `Opening` is over."""

    def append_as_follower(self, batches: memoryview, *, leader_epoch: int, now_ms: int) -> Appended | AppendRefused:
        """Write the leader's batches byte for byte (R20, P16). A cut-off last batch is left out.

        Batches must be whole, with a right CRC, begin at the log end, and have epochs of at most `leader_epoch`; else nothing
        from the first bad batch on is written (`AppendRefused` if that is the first).
        """

    def prepare_flush(self) -> FlushJob | None:
        """A job that makes everything appended so far durable; None if it is already."""

    def flushed(self, upto: int) -> None:
        """A flush job ended well: raise the durable end."""

    def is_flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages` or `flush.ms` asks for a flush."""

    @property
    def is_flushing(self) -> bool:
        """A flush job is under way."""

    def hold_flushes(self, *, held: bool) -> None:
        """While they are held no flush is due: what is durable stays as it is."""

    def roll(self, now_ms: int) -> None:
        """Begin a new segment now, unless the active one is empty."""

    # -- reading -----------------------------------------------------------------------------------------------

    def read_slice(
        self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool
    ) -> FileSlice | OutOfRange:
        """Batches from the one that holds `offset` on, of one segment, below `upper_offset` (a batch boundary such as the
        high watermark, LSO or log end).

        With `min_one_batch` the first batch comes whole even if it is larger than `max_bytes`; without it the slice is empty then. Only the last of
        several batches may be cut off (KIP-74).
        """

    def read_bytes(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> bytes | OutOfRange:
        """`read_slice` and the bytes of it."""

    def offset_for_timestamp(self, timestamp: int) -> Search[TimestampAndOffset | None]:
        """The first record whose timestamp is at least `timestamp`, or None."""

    def max_timestamp(self) -> Search[TimestampAndOffset | None]:
        """The record with the highest timestamp (the first of them), or None if the log is empty."""

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> Sequence[AbortedTransaction]:
        """Aborted transactions that overlap [start, upper), for read-committed readers."""

    # -- epochs ------------------------------------------------------------------------------------------------

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """KIP-101, KIP-279: the largest epoch at or below `epoch` that this log knows, and where it ended.

        None if the log knows no such epoch.
        """

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at `offset` (or of the last record for the log end), None if unknown."""

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads `epoch` from the log end on: note it in the epoch table."""

    # -- removing ----------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cut so that the log ends at or before `offset`; durable state (epoch table, recovery point) follows. True if
        anything was cut."""

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything; the next record gets `offset`."""

    @property
    def is_being_cut(self) -> bool:
        """A job of `LogStorePort.cut` has the log: nobody may read it or append to it."""

    def after_cut(self, go_on: Callable[[], None]) -> bool:
        """True if a job of `LogStorePort.cut` has the log, which refuses appends: `go_on` is called when that is over, and never if the log is closed before."""

    def advance_log_start(self, offset: int) -> bool:
        """DeleteRecords: nothing below `offset` may be read any more. At most to the high watermark (else ValueError)."""

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention by time, size and log start offset; returns the number of segments removed."""

    def delete_segments_below(self, offset: int) -> int:
        """Metadata log: raise the log start to `offset` (the end of a snapshot) and drop whole segments below."""

    # -- producers ---------------------------------------------------------------------------------------------

    def producer_end(self, producer_id: int, /) -> ProducerEnd | None:
        """Where a producer stands; None if it is unknown here."""

    def active_producers(self) -> Sequence[ActiveProducer]:
        """Producers whose state has not expired, by id."""

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`."""

    def close(self, *, clean: bool) -> None:
        """Give files back. With `clean`, everything was flushed before: indexes and a producer snapshot are written."""
