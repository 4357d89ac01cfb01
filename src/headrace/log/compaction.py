"""Which records of a compacted log may go, and when is a log worth compacting? Source: KIP-58, KIP-354, KIP-534; P19.

The last value of each key below the cleaned point stays, with its offset. Tombstones and transaction markers stay until
`delete.retention.ms` after the pass that first met them. Nothing at or above the first uncleanable offset is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from headrace.core.errors import PeerError
from headrace.log.config import NO_LIMIT, LogConfig
from headrace.log.ports import AbortedTransaction
from headrace.log.segments import MAX_RELATIVE_OFFSET
from headrace.records.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    set_crc,
)
from headrace.records.control import read_marker
from headrace.records.record import Placement, ProducerStamp, Record, build_batch_at, read_records

DEFAULT_MAX_KEYS = 2_000_000
_DIGEST_BYTES = 16
_KEPT_WHEN_EMPTY = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class SegmentView(NamedTuple):
    """A segment as the choice sees it: `end_offset` is exclusive; times in ms."""

    base_offset: int
    end_offset: int
    size: int
    first_timestamp: int
    largest_timestamp: int


class Cleanable(NamedTuple):
    """What a log offers to compaction: dirty offsets [first_dirty, end), sizes in bytes, and whether its lag is over."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """Share of dirty bytes among all that compaction may touch."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(
    segments: Sequence[SegmentView], config: LogConfig, *, first_dirty_offset: int, stable_end: int, now_ms: int
) -> Cleanable:
    """The part of a log between what is clean and what may not be touched yet.

    `stable_end` is the lowest of last stable offset, durable end and the active segment's base (K40). `min.compaction.lag.ms` keeps
    segments with younger records out; `max.compaction.lag.ms` makes older ones overdue.
    """
    end = stable_end
    clean = dirty = 0
    oldest = None
    for segment in segments:
        if segment.end_offset > end:
            end = min(end, max(segment.base_offset, first_dirty_offset))
            break
        if segment.end_offset > first_dirty_offset:
            if config.min_compaction_lag_ms > 0 and segment.largest_timestamp > now_ms - config.min_compaction_lag_ms:
                end = segment.base_offset
                break
            dirty += segment.size
            if segment.first_timestamp >= 0 and (oldest is None or segment.first_timestamp < oldest):
                oldest = segment.first_timestamp
        else:
            clean += segment.size
    is_overdue = (
        config.max_compaction_lag_ms < NO_LIMIT
        and oldest is not None
        and now_ms - oldest > max(config.max_compaction_lag_ms, config.min_compaction_lag_ms)
    )
    return Cleanable(first_dirty_offset, end, clean, dirty, is_overdue and dirty > 0)


def is_due(found: Cleanable, config: LogConfig) -> bool:
    """True if the log is dirty enough, or overdue."""
    return found.dirty_bytes > 0 and (found.is_overdue or found.dirty_ratio > config.min_cleanable_dirty_ratio)


def group_segments(segments: Sequence[SegmentView], config: LogConfig) -> list[list[SegmentView]]:
    """Neighbours that fit together into one segment by size, index size and offset range."""
    groups: list[list[SegmentView]] = []
    size = entries = 0
    for segment in segments:
        added = segment.size // max(config.index_interval_bytes, 1) + 1
        fits = (
            groups
            and size + segment.size <= config.segment_bytes
            and (entries + added) * 12 <= config.segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(segment)
            size, entries = size + segment.size, entries + added
        else:
            groups.append([segment])
            size, entries = segment.size, added
    return groups


class KeyMap:
    """The last offset of each key in the dirty part. Long keys are kept as digests."""

    __slots__ = ("_max_keys", "_offsets", "end_offset")

    def __init__(self, max_keys: int = DEFAULT_MAX_KEYS) -> None:
        self._offsets: dict[bytes, int] = {}
        self._max_keys = max_keys
        self.end_offset = 0

    @property
    def is_full(self) -> bool:
        """True if no batch may be added: the rest waits for the next pass."""
        return len(self._offsets) >= self._max_keys

    def add(self, records: Iterable[Record]) -> None:
        """Note the keys of a batch."""
        for record in records:
            if record.key is not None:
                self._offsets[_short(record.key)] = record.offset

    def last_offset(self, key: bytes) -> int | None:
        """Offset of the key's last record in the dirty part."""
        return self._offsets.get(_short(key))


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class TransactionFilter:
    """Which transactional batches belong to aborted transactions, while a log is read in order."""

    __slots__ = ("_committed", "_next", "_ongoing", "_seen", "_sorted", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._sorted = sorted(aborted, key=lambda entry: entry.first_offset)
        self._next = 0
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """True for a data batch of an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional or header.is_control:
            return False
        if header.producer_id in self._ongoing:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def _begin_up_to(self, last_offset: int) -> None:
        while self._next < len(self._sorted) and self._sorted[self._next].first_offset <= last_offset:
            entry = self._sorted[self._next]
            self._ongoing[entry.producer_id] = entry
            self._next += 1

    def ended(self, header: BatchHeader) -> None:
        """A control batch was passed: what its producer writes from here on belongs to another transaction."""
        self._begin_up_to(header.last_offset)
        self._ongoing.pop(header.producer_id, None)

    def marker_may_go(self, header: BatchHeader, *, is_commit: bool) -> bool:
        """True if no record of the transaction that this marker ends was met any more."""
        producer_id = header.producer_id
        if is_commit:
            had_records = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_records
        entry = self._ongoing.pop(producer_id, None)
        had_records = producer_id in self._seen
        self._seen.discard(producer_id)
        if entry is not None and had_records:
            self.kept.append(entry)
        return not had_records


class LastOfProducer(NamedTuple):
    """The last data batch of an active producer (-1 if none is left), and its epoch: its header stays, for the sequence."""

    last_offset: int
    producer_epoch: int


class BatchCleaner:
    """What is left of each batch. Batches come in offset order; the cleaner of `storage` drives it.

    The batch that ends at `round_end` stays, though it may be empty: a replica that copies the log learns from it where the log ends.
    """

    __slots__ = ("_config", "_keys", "_now_ms", "_producers", "_round_end", "_transactions")

    def __init__(
        self,
        keys: KeyMap,
        config: LogConfig,
        *,
        now_ms: int,
        transactions: TransactionFilter,
        producers: Mapping[int, LastOfProducer],
        round_end: int = -1,
    ) -> None:
        self._keys = keys
        self._round_end = round_end
        self._config = config
        self._now_ms = now_ms
        self._transactions = transactions
        self._producers = producers

    def clean(self, header: BatchHeader, data: bytes) -> bytes | bytearray | None:
        """The batch as it is, rewritten, or None if nothing of it stays. A batch that cannot be opened stays (B53)."""
        is_aborted = self._transactions.is_aborted(header)
        horizon = header.delete_horizon_ms
        if header.is_control:
            return self._clean_control(header, data, horizon)
        try:
            records = [] if is_aborted else read_records(data, max_bytes=self._config.max_decompressed_bytes)
        except PeerError:
            return data
        keeps_tombstones = horizon is None or self._now_ms < horizon
        kept = [record for record in records if self._stays(record, keeps_tombstones=keeps_tombstones)]
        if not kept:
            return _emptied(header) if self._keeps_header(header) else None
        needs_horizon = horizon is None and any(record.value is None for record in kept)
        if len(kept) == header.record_count and not needs_horizon:
            return data
        return _rebuilt(header, kept, self._now_ms + self._config.delete_retention_ms if needs_horizon else horizon)

    def _stays(self, record: Record, *, keeps_tombstones: bool) -> bool:
        if record.offset >= self._keys.end_offset:
            return True
        if record.key is None:
            return False
        last = self._keys.last_offset(record.key)
        is_latest = last is None or record.offset >= last
        return is_latest and (record.value is not None or keeps_tombstones)

    def _clean_control(self, header: BatchHeader, data: bytes, horizon: int | None) -> bytes | bytearray | None:
        try:
            marker = read_marker(data, header)
        except PeerError:
            return data
        if marker is None:
            return data if header.record_count or self._keeps_header(header) else None
        if not self._transactions.marker_may_go(header, is_commit=marker.is_commit):
            return data
        if horizon is None:
            records = read_records(data)
            return _rebuilt(header, records, self._now_ms + self._config.delete_retention_ms)
        if self._now_ms < horizon:
            return data
        return _emptied(header) if self._keeps_header(header) else None

    def _keeps_header(self, header: BatchHeader) -> bool:
        """True if the batch says something that must be known when its records are gone."""
        return header.next_offset == self._round_end or self._is_last_of_producer(header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def _rebuilt(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None) -> bytearray:
    """The batch with fewer records; base and last offset, sequence and times stay."""
    return build_batch_at(
        records,
        codec=header.codec,
        producer=ProducerStamp(
            header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional, header.is_control
        ),
        placement=Placement(
            header.base_offset,
            header.leader_epoch,
            header.max_timestamp if header.is_log_append_time else None,
            header.last_offset,
            delete_horizon_ms,
        ),
    )


def _emptied(header: BatchHeader) -> bytearray:
    """A batch without records that keeps offsets, epoch and sequence of its producer. As Kafka writes it: nothing is compressed, and no horizon runs."""
    data = bytearray(HEADER_SIZE)
    emptied = header._replace(
        length=HEADER_SIZE - LOG_OVERHEAD,
        attributes=header.attributes & _KEPT_WHEN_EMPTY,
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    HEADER.pack_into(data, 0, *emptied)
    set_crc(data, 0, HEADER_SIZE)
    return data
