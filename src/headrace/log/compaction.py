"""Records of a compacted log that may go, and when a log is worth compacting. Source: KIP-58, KIP-354, KIP-534; P19.

The last value of each key below the cleaned point stays, with its offset. Tombstones and transaction markers stay until
`delete.retention.ms` after the pass that first met them. Nothing at or above the first uncleanable offset is touched.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from headrace.core.error_code import ErrorCode
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
from headrace.records.record import (
    Placement,
    ProducerStamp,
    WrittenRecords,
    build_batch_at,
    build_written_batch,
    iter_records,
)
from headrace.records.varint import write_varint
from headrace.records.walk import RecordWalk, Span, open_records

DEFAULT_MAX_KEYS = 2_000_000
LARGEST_TIMESTAMP = 2**63 - 1
_DIGEST_BYTES = 16
_SPANS_KEPT = 10_000
"""Of a batch with no more records their places are kept until all were met; a larger one is walked twice."""
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
        """True if no other key may be added: the rest waits for the next pass."""
        return len(self._offsets) >= self._max_keys

    def add(self, key: bytes, offset: int) -> None:
        """Note the last offset of a key."""
        self._offsets[_short(key)] = offset

    def add_batch(self, header: BatchHeader, data: bytes, *, max_bytes: int) -> Generator[None, None, None]:
        """Note the keys of a batch, a turn at a time, up to the first for which there is no room; `end_offset` follows.

        Raises PeerError for a batch that cannot be opened or is damaged, before anything of it is noted: it stays, and hides no key (B53).
        """
        records = open_records(data, header, max_bytes=max_bytes)
        found: list[Span] = []
        keeps = header.record_count <= _SPANS_KEPT
        while not records.is_done:
            taken = records.take()
            if keeps:
                found += taken
            yield
        if keeps:
            self._add_spans(records, found)
        else:
            records = RecordWalk(header, records.view)
            while not records.is_done and self._add_spans(records, records.take()):
                yield
        if not self.is_full:
            self.end_offset = header.next_offset

    def _add_spans(self, records: RecordWalk, spans: Iterable[Span]) -> bool:
        """Note them. False when there is no room for one; it is where the cleaned part ends."""
        offsets, base = self._offsets, records.header.base_offset
        for span in spans:
            offset = base + span.offset_delta
            if span.key_size >= 0:
                key = _short_key(records, span)
                if self.is_full and key not in offsets:
                    return False
                offsets[key] = offset
            self.end_offset = max(self.end_offset, offset + 1)
        return True

    def last_offset(self, records: RecordWalk, span: Span) -> int | None:
        """Offset of the last record in the dirty part that has this one's key."""
        return self._offsets.get(_short_key(records, span))


def _short(key: bytes | memoryview) -> bytes:
    return bytes(key) if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _short_key(records: RecordWalk, span: Span) -> bytes:
    return _short(records.view[span.key : span.key + span.key_size])


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

    def clean(self, header: BatchHeader, data: bytes) -> Generator[None, None, bytes | bytearray | None]:
        """The batch as it is, rewritten, or None if nothing of it stays; a turn at a time. A batch that cannot be opened stays (B53).

        So does one that opens to more than half of what a batch may: while it is rewritten, both are there.
        """
        is_aborted = self._transactions.is_aborted(header)
        horizon = header.delete_horizon_ms
        if header.is_control:
            return self._clean_control(header, data, horizon)
        if is_aborted:
            return _emptied(header) if self._keeps_header(header) else None
        try:
            return (yield from self._clean_records(header, data, horizon))
        except PeerError:
            return data

    def _clean_records(
        self, header: BatchHeader, data: bytes, horizon: int | None
    ) -> Generator[None, None, bytes | bytearray | None]:
        """First what stays is counted, then that is written anew if it must be. Raises PeerError for a damaged batch."""
        records = open_records(data, header, max_bytes=self._config.max_decompressed_bytes // 2)
        keeps_tombstones = horizon is None or self._now_ms < horizon
        kept, has_tombstone, times, earliest = 0, False, (NO_TIMESTAMP, NO_TIMESTAMP), 0
        while not records.is_done:
            for span in records.take():
                if self._stays(records, span, keeps_tombstones=keeps_tombstones):
                    at = records.timestamp(span)
                    times = (times[0], max(times[1], at)) if kept else (at, at)
                    earliest = min(earliest, at)
                    kept += 1
                    has_tombstone = has_tombstone or span.value_size < 0
            yield
        if not kept:
            return _emptied(header) if self._keeps_header(header) else None
        needs_horizon = horizon is None and has_tombstone
        if kept == header.record_count and not needs_horizon:
            return data
        if needs_horizon:
            horizon = min(self._horizon(), LARGEST_TIMESTAMP + earliest)  # records tell their times from it
        base_timestamp = times[0] if horizon is None else horizon
        _check_times(base_timestamp, earliest, times[1])
        body = bytearray()
        records = RecordWalk(header, records.view)
        while not records.is_done:
            for span in records.take():
                if self._stays(records, span, keeps_tombstones=keeps_tombstones):
                    _write_span(body, records, span, base_timestamp)
            yield
        written = WrittenRecords(body, kept, *times)
        return build_written_batch(
            written, codec=header.codec, producer=_stamp(header), placement=_place(header, horizon)
        )

    def _stays(self, records: RecordWalk, span: Span, *, keeps_tombstones: bool) -> bool:
        offset = records.header.base_offset + span.offset_delta
        if offset >= self._keys.end_offset:
            return True
        if span.key_size < 0:
            return False
        last = self._keys.last_offset(records, span)
        is_latest = last is None or offset >= last
        return is_latest and (span.value_size >= 0 or keeps_tombstones)

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
            placement = _place(header, self._horizon())
            marker_record = next(iter_records(data))
            return build_batch_at([marker_record], codec=header.codec, producer=_stamp(header), placement=placement)
        if self._now_ms < horizon:
            return data
        return _emptied(header) if self._keeps_header(header) else None

    def _horizon(self) -> int:
        """When tombstones of a batch that is cleaned now may go."""
        return min(self._now_ms + self._config.delete_retention_ms, LARGEST_TIMESTAMP)

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


def _check_times(base: int, earliest: int, latest: int) -> None:
    """Raises PeerError when records have times that cannot be told from the batch's: a client's sums may be anything."""
    if max(base, latest, latest - base, base - earliest) > LARGEST_TIMESTAMP:
        raise PeerError(ErrorCode.CORRUPT_MESSAGE, "a record is of a time that cannot be told from its batch's")


def _write_span(out: bytearray, records: RecordWalk, span: Span, base_timestamp: int) -> None:
    """The same record, its time told from another base."""
    view = records.view
    body = bytearray(b"\x00")
    write_varint(body, records.timestamp(span) - base_timestamp)
    write_varint(body, span.offset_delta)
    write_varint(body, span.key_size)
    body += view[span.key : span.key + max(span.key_size, 0)]
    write_varint(body, span.value_size)
    body += view[span.value : span.value + max(span.value_size, 0)]
    body += view[span.headers : span.stop]
    write_varint(out, len(body))
    out += body


def _stamp(header: BatchHeader) -> ProducerStamp:
    return ProducerStamp(
        header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional, header.is_control
    )


def _place(header: BatchHeader, delete_horizon_ms: int | None) -> Placement:
    """Base and last offset, epoch and the time of the append stay."""
    return Placement(
        header.base_offset,
        header.leader_epoch,
        header.max_timestamp if header.is_log_append_time else None,
        header.last_offset,
        delete_horizon_ms,
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
