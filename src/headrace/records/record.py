"""The records in a batch, and batches that are made.

For those who need records one by one: the metadata log, coordinators, the command line, tests. Never on the way of a produce or
fetch request, unless the topic's settings demand it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ports import BytesLike
from headrace.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    checked_batches,
    read_header,
    set_crc,
)
from headrace.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from headrace.records.varint import read_varint, read_varlong, varint_size, write_varint
from headrace.records.walk import MIN_RECORD_BYTES, RecordWalk

_COPIED_BYTES = 1024 * 1024
"""What opens to no more is copied once for speed."""
Headers = tuple[tuple[str, bytes | None], ...]


class NewRecord(NamedTuple):
    """A record to be written. `timestamp` is ms since 1970."""

    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    headers: Headers = ()


class Record(NamedTuple):
    """A record as it lies in a batch: absolute offset and timestamp (ms since 1970); `sequence` is -1 without a producer."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    sequence: int = NO_SEQUENCE


class ProducerStamp(NamedTuple):
    """Who writes a batch: producer id, its epoch, and the sequence of the first record."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False


NO_PRODUCER = ProducerStamp()


class Placement(NamedTuple):
    """Where a batch lies and what was decided about its time.

    `last_offset` (inclusive) is that of the batch, which compaction keeps though it removed the last record.
    """

    base_offset: int = 0
    leader_epoch: int = NO_EPOCH
    log_append_time: int | None = None
    last_offset: int | None = None
    delete_horizon_ms: int | None = None


FRESH = Placement()


def build_batch(
    records: Sequence[NewRecord],
    *,
    codec: int = Codec.NONE,
    producer: ProducerStamp = NO_PRODUCER,
    placement: Placement = FRESH,
    level: int | None = None,
) -> bytearray:
    """One batch of one or more records, whose offsets follow each other from `placement.base_offset` on."""
    if not records:
        raise ValueError("a batch has at least one record")
    base = placement.base_offset
    numbered = [
        Record(offset=base + index, timestamp=r.timestamp, key=r.key, value=r.value, headers=r.headers)
        for index, r in enumerate(records)
    ]
    return build_batch_at(numbered, codec=codec, producer=producer, placement=placement, level=level)


def build_batch_at(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    producer: ProducerStamp = NO_PRODUCER,
    placement: Placement = FRESH,
    level: int | None = None,
) -> bytearray:
    """One batch of records that keep their own offsets (in rising order, perhaps with gaps). Compaction may leave none."""
    first = records[0].timestamp if records else NO_TIMESTAMP
    highest = max((r.timestamp for r in records), default=NO_TIMESTAMP)
    if placement.last_offset is None:
        placement = placement._replace(last_offset=records[-1].offset)
    base_timestamp = first if placement.delete_horizon_ms is None else placement.delete_horizon_ms
    body = bytearray()
    for record in records:
        _write_record(body, record, base_offset=placement.base_offset, base_timestamp=base_timestamp)
    written = WrittenRecords(body, len(records), first, highest)
    return build_written_batch(written, codec=codec, producer=producer, placement=placement, level=level)


class WrittenRecords(NamedTuple):
    """Records as they lie in a batch, how many, and the times of the first and of the highest (ms)."""

    body: bytearray
    number: int
    first_timestamp: int
    max_timestamp: int


def build_written_batch(
    records: WrittenRecords,
    *,
    codec: int,
    producer: ProducerStamp,
    placement: Placement,
    level: int | None = None,
) -> bytearray:
    """One batch of records that are written already; `placement` says the last offset."""
    body, count, base_timestamp, max_timestamp = records
    attributes = codec
    if producer.is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if producer.is_control:
        attributes |= CONTROL_BIT
    if placement.log_append_time is not None:
        attributes |= TIMESTAMP_TYPE_BIT
        max_timestamp = placement.log_append_time
    if placement.delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = placement.delete_horizon_ms
    assert placement.last_offset is not None, "the caller knows where the batch ends"
    packed = compress(codec, body, level=level) if codec else body
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch,
        0,
        placement.base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(packed),
        placement.leader_epoch,
        MAGIC,
        0,
        attributes,
        placement.last_offset - placement.base_offset,
        base_timestamp,
        max_timestamp,
        producer.producer_id,
        producer.producer_epoch,
        producer.base_sequence,
        count,
    )
    batch += packed
    set_crc(batch, 0, len(batch))
    return batch


def written_values(values: Sequence[bytes]) -> bytearray:
    """Records of one time with values only, their offsets one behind the other, as they lie in a batch."""
    body = bytearray()
    sizes: dict[int, tuple[int, bytes]] = {}
    for delta, value in enumerate(values):
        known = sizes.get(len(value))
        if known is None:
            size = bytearray()
            write_varint(size, len(value))
            known = sizes[len(value)] = (len(value) + len(size) + 4, b"\x01" + size)
        length, before_value = known
        place = bytearray(b"\x00\x00")
        write_varint(place, delta)
        write_varint(body, length + len(place) - 2)
        body += place
        body += before_value
        body += value
        body += b"\x00"
    return body


def _write_record(out: bytearray, record: Record, *, base_offset: int, base_timestamp: int) -> None:
    body = bytearray(b"\x00")
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
    else:
        write_varint(out, len(data))
        out += data


def record_size_bound(record: NewRecord) -> int:
    """An upper bound of the bytes the record takes in an uncompressed batch."""
    size = 21 + varint_size(len(record.headers))
    for part in (record.key, record.value):
        size += 5 + (len(part) if part else 0)
    return size + sum(10 + len(name.encode()) + (len(value) if value else 0) for name, value in record.headers)


def read_records(
    batch: BytesLike,
    position: int = 0,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """The records of the batch at `position`, which must be whole in `batch`.

    PeerError with CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE (opens to more than `max_bytes`) or
    UNSUPPORTED_COMPRESSION_TYPE for bytes that are none.
    """
    return list(iter_records(batch, position, max_bytes=max_bytes))


def iter_records(
    batch: BytesLike, position: int = 0, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """As `read_records`, one at a time; errors come when they are reached."""
    header = read_header(batch, position)
    view = memoryview(batch)[position + HEADER_SIZE : position + header.size]
    body = decompress(header.codec, view, max_bytes=max_bytes)
    if len(body) > _COPIED_BYTES:
        yield from _walked(header, body)
        return
    data = bytes(body)
    at, end = 0, len(data)
    count = header.record_count
    if not 0 <= count * MIN_RECORD_BYTES <= end:
        raise PeerError(ErrorCode.INVALID_RECORD, f"record count {count} does not fit {end} bytes")
    base_timestamp = header.base_timestamp
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    base_sequence = header.base_sequence
    for _ in range(count):
        length, at = read_varint(data, at)
        if length < 0 or length > end - at:
            raise PeerError(ErrorCode.INVALID_RECORD, f"record length {length} does not fit its batch")
        timestamp_delta, offset_delta, key, value, headers = _read_body(data, at, at + length)
        at += length
        yield Record(
            header.base_offset + offset_delta,
            base_timestamp + timestamp_delta if fixed_timestamp is None else fixed_timestamp,
            key,
            value,
            headers,
            base_sequence if base_sequence < 0 else (base_sequence + offset_delta) & 0x7FFFFFFF,
        )
    if at != end:
        raise PeerError(ErrorCode.INVALID_RECORD, f"{end - at} bytes after the last record of a batch")


def _walked(header: BatchHeader, opened: BytesLike) -> Iterator[Record]:
    """The records of much that was opened, without a second copy of it."""
    walk = RecordWalk(header, opened)
    base_sequence = header.base_sequence
    while not walk.is_done:
        for span in walk.take():
            count, at = read_varint(walk.view, span.headers)
            headers = _read_headers(bytes(walk.view[at : span.stop]), 0, span.stop - at, count)[0] if count else ()
            yield Record(
                header.base_offset + span.offset_delta,
                walk.timestamp(span),
                walk.key(span),
                walk.value(span),
                headers,
                base_sequence if base_sequence < 0 else (base_sequence + span.offset_delta) & 0x7FFFFFFF,
            )


def _read_body(data: bytes, at: int, end: int) -> tuple[int, int, bytes | None, bytes | None, Headers]:
    if at == end:
        raise PeerError(ErrorCode.INVALID_RECORD, "empty record")
    timestamp_delta, at = read_varlong(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    count, at = read_varint(data, at)
    if count:
        headers, at = _read_headers(data, at, end, count)
    else:
        headers = ()
    if at != end:
        raise PeerError(ErrorCode.INVALID_RECORD, "record length disagrees with its parts")
    return timestamp_delta, offset_delta, key, value, headers


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        if size != -1:
            raise PeerError(ErrorCode.INVALID_RECORD, f"negative size {size} in a record")
        return None, at
    if size > end - at:
        raise PeerError(ErrorCode.INVALID_RECORD, "key, value or header is longer than its record")
    return data[at : at + size], at + size


def _read_headers(data: bytes, at: int, end: int, count: int) -> tuple[Headers, int]:
    """The headers, and where they end. In names what is not UTF-8 is replaced by U+FFFD, as by Java's consumers: any producer may write it, and one such record would hold up all readers."""
    if count < 0 or count > end - at:
        raise PeerError(ErrorCode.INVALID_RECORD, f"header count {count} does not fit its record")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise PeerError(ErrorCode.INVALID_RECORD, "header without a name")
        value, at = _read_bytes(data, at, end)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at


def read_all_records(
    buffer: BytesLike, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """(header, records) of each whole batch in `buffer`; PeerError(CORRUPT_MESSAGE) where a CRC is wrong."""
    for position, header in checked_batches(buffer):
        yield header, read_records(buffer, position, max_bytes=max_bytes)


def all_records(buffer: BytesLike, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> Iterable[Record]:
    """Every data record in `buffer`, control batches left out."""
    for header, records in read_all_records(buffer, max_bytes=max_bytes):
        if not header.is_control:
            yield from records
