"""The batches of a fetch response that hold data which a reader may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headrace.client.fetcher import AbortedRange
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records.batch import HEADER_SIZE, BatchHeader, iter_batches
from headrace.records.compression import READER_MAX_DECOMPRESSED_BYTES, decompress
from headrace.records.control import ControlType, control_type
from headrace.records.record import Record, iter_records
from headrace.records.varint import read_varint


def data_batches(
    records: memoryview, aborted: Sequence[AbortedRange], *, is_read_committed: bool
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch with data: control batches never, batches of aborted transactions not for a committed reader (KIP-98)."""
    left = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    undone: set[int] = set()
    for position, header in iter_batches(records):
        if not is_read_committed:
            if not header.is_control:
                yield position, header
            continue
        while left and left[-1].first_offset <= header.last_offset:
            undone.add(left.pop().producer_id)
        if header.is_control:
            if header.producer_id in undone and _is_abort(records, position):
                undone.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in undone):
            yield position, header


def _is_abort(records: memoryview, position: int) -> bool:
    return any(control_type(record.key) is ControlType.ABORT for record in iter_records(records, position))


def data_records(
    records: memoryview,
    aborted: Sequence[AbortedRange],
    *,
    start: int,
    is_read_committed: bool,
    max_bytes: int = READER_MAX_DECOMPRESSED_BYTES,
    on_unreadable: Callable[[PeerError], None] | None = None,
) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record from offset `start` on that a reader may see, with its batch's header. Raises PeerError for records that cannot be read, or open to more than `max_bytes`.

    With `on_unreadable` it is told, and the reader goes on with the next batch.
    """
    for position, header in data_batches(records, aborted, is_read_committed=is_read_committed):
        try:
            for record in iter_records(records, position, max_bytes=max_bytes):
                if record.offset >= start:
                    yield header, record
        except PeerError as error:
            if on_unreadable is None:
                raise
            on_unreadable(error)


def payload_bytes(
    records: memoryview, *, start: int, most: int, max_bytes: int = READER_MAX_DECOMPRESSED_BYTES
) -> tuple[int, int]:
    """(count, bytes of keys and values) of up to `most` data records from offset `start` on, without making an object of each.

    Raises PeerError for records that cannot be read, or open to more than `max_bytes`.
    """
    count = size = 0
    for position, header in iter_batches(records):
        if header.is_control or header.next_offset <= start:
            continue
        if header.base_offset < start or count + header.record_count > most:
            for record in iter_records(records, position, max_bytes=max_bytes):
                if record.offset >= start and count < most:
                    count += 1
                    size += len(record.key or b"") + len(record.value or b"")
            continue
        packed = records[position + HEADER_SIZE : position + header.size]
        body = decompress(header.codec, packed, max_bytes=max_bytes)
        size += _body_payload(bytes(body), header.record_count)
        count += header.record_count
    return count, size


def _body_payload(data: bytes, count: int) -> int:
    """Bytes of keys and values of `count` records in the open body of a batch."""
    at = total = 0
    end = len(data)
    try:
        for _ in range(count):
            length = data[at]
            if length < 0x80 and not length & 1:
                at, length = at + 1, length >> 1
            else:
                length, at = read_varint(data, at)
            after = at + length
            place = at + 1
            for _ in range(2):  # the deltas of time and offset
                while data[place] & 0x80:
                    place += 1
                place += 1
            for _ in range(2):  # key and value
                size = data[place]
                if size < 0x80:
                    place, size = place + 1, (size >> 1) ^ -(size & 1)
                else:
                    size, place = read_varint(data, place)
                if size > 0:
                    total += size
                    place += size
            if length <= 0 or place >= after or after > end:
                raise PeerError(ErrorCode.INVALID_RECORD, "record length disagrees with its parts")
            at = after
    except IndexError:
        raise PeerError(ErrorCode.INVALID_RECORD, "the records of a batch are cut off") from None
    return total
