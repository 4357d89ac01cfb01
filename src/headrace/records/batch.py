"""The header of a record batch, and its changes in place.

A batch in format v2 (KIP-98) begins with 61 bytes; records follow, perhaps compressed. The broker looks at and changes only
those 61 bytes. The CRC-32C covers everything from the attributes on, so that base offset and leader epoch can be set without
reading the batch again.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ports import BytesLike
from headrace.records.crc import crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
MAGIC = 2
LOG_OVERHEAD = 12
"""Bytes of base offset and batch length; the length field counts what follows them."""
MIN_SIZE_TO_MAGIC = 17
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_ATTRIBUTES = 0x7F

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_EPOCH = -1

_I64 = Struct(">q")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I16 = Struct(">h")
_LENGTH = Struct(">qi")


class BatchHeader(NamedTuple):
    """The 61 bytes of a batch's header. *last* offsets are inclusive; timestamps are ms since 1970 or -1.

    `length` counts the bytes after itself; `size` is the whole batch.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record (which compaction may have removed)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Number of the compression codec; 0 is none."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """True if every record has `max_timestamp` as its timestamp."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction (control batches too)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if the batch holds a control record (marker, leader change, snapshot header ...)."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in this batch may go; None if the cleaner has not said so yet (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        """True if an idempotent or transactional producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; wraps after 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


_new = tuple.__new__
_unpack = HEADER.unpack_from


def read_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller made sure that 61 bytes are there."""
    return _new(BatchHeader, _unpack(buffer, position))


def set_offset_and_epoch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch; the CRC does not cover them."""
    _I64.pack_into(buffer, position, base_offset)
    _I32.pack_into(buffer, position + 12, leader_epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, header: BatchHeader, timestamp: int, *, position: int = 0, is_append_time: bool
) -> None:
    """Set the highest timestamp and who chose it, and the CRC that follows from that."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if is_append_time:
        attributes |= TIMESTAMP_TYPE_BIT
    if attributes == header.attributes and timestamp == header.max_timestamp:
        return
    _I16.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _I64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, timestamp)
    set_crc(buffer, position, header.size)


def set_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Write the CRC-32C of the batch's bytes from the attributes on."""
    view = memoryview(buffer)
    _U32.pack_into(buffer, position + CRC_POSITION, crc32c(view[position + ATTRIBUTES_POSITION : position + size]))


def crc_is_right(buffer: BytesLike, header: BatchHeader, position: int = 0) -> bool:
    """True if the stored CRC-32C fits the bytes; the whole batch must be in `buffer`."""
    view = memoryview(buffer)
    crc: int = crc32c(view[position + ATTRIBUTES_POSITION : position + header.length + LOG_OVERHEAD])
    return crc == header.crc


def whole_batch_size(buffer: BytesLike, position: int, end: int) -> int:
    """Bytes of the batch at `position`, or 0 if `buffer` ends (at `end`) before the batch does.

    Raises PeerError(CORRUPT_MESSAGE) if the length or the magic byte cannot be those of a batch in format v2.
    """
    left = end - position
    if left < MIN_SIZE_TO_MAGIC:
        return 0
    length: int = _LENGTH.unpack_from(buffer, position)[1]
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise PeerError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is shorter than a batch header")
    magic = buffer[position + 16]
    if magic != MAGIC:
        raise PeerError(ErrorCode.CORRUPT_MESSAGE, f"batch has magic byte {magic}, not 2")
    size = length + LOG_OVERHEAD
    return size if size <= left else 0


def whole_batches(buffer: BytesLike, *, most: int) -> tuple[int, int]:
    """How many whole batches `buffer` begins with, `most` at the most, and their bytes together.

    Raises PeerError(CORRUPT_MESSAGE) if the first bytes cannot be a batch; later ones that cannot be end the count.
    """
    position, end = 0, len(buffer)
    for number in range(most):
        try:
            size = whole_batch_size(buffer, position, end)
        except PeerError:
            if number:
                return number, position
            raise
        if not size:
            return number, position
        position += size
    return most, position


def iter_batches(buffer: BytesLike, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch from `start` on; a cut-off last batch is left out.

    Raises PeerError(CORRUPT_MESSAGE) at bytes that cannot be a batch. CRCs are not checked here.
    """
    position, end = start, len(buffer)
    while size := whole_batch_size(buffer, position, end):
        yield position, read_header(buffer, position)
        position += size


def checked_batches(buffer: BytesLike) -> Iterator[tuple[int, BatchHeader]]:
    """As `iter_batches`, but PeerError(CORRUPT_MESSAGE) where a CRC is wrong, too."""
    for position, header in iter_batches(buffer):
        if not crc_is_right(buffer, header, position):
            raise PeerError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset} has a wrong CRC")
        yield position, header


def batch_is_sound(buffer: BytesLike, header: BatchHeader, position: int = 0) -> bool:
    """True if the CRC fits and count and offsets make sense: what recovery asks of each batch."""
    return (
        header.magic == MAGIC
        and header.length >= HEADER_SIZE - LOG_OVERHEAD
        and header.last_offset_delta >= 0
        and header.base_offset >= 0
        and crc_is_right(buffer, header, position)
    )
