"""The batches of a fetch response that hold rows, and where their records lie.

One Python step a batch, none a record. Every header field that the columns are computed from is checked here, the CRC among them; what
cannot be right raises `DecodeError` (B40-B43, B45, B52). A batch that is cut off at the end of the answer is left for the next fetch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace.arrow.corrupt import CorruptRecords
from headrace.core.ports import BytesLike
from headrace.records.compression import READER_MAX_DECOMPRESSED_BYTES, decompress
from headrace.records.crc import crc32c

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CONTROL_TYPE: Final = struct.Struct(">hh")
_LENGTH_AT_BYTES: Final = 12
_CRC_FROM: Final = 21
_SMALLEST_RECORD_BYTES: Final = 7
_MAGIC: Final = 2
_CODEC_MASK: Final = 0x07
_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
_KNOWN_BITS: Final = 0x7F
_ABORT_MARKER: Final = 0


class AbortedTransaction(Protocol):
    """What a fetch answer says of an aborted transaction: whose it is and where it began."""

    @property
    def producer_id(self) -> int:
        """The producer that aborted."""

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""


@dataclass(slots=True, kw_only=True)
class Frames:
    """Some neighbouring batches: their record bytes in one buffer, and a row of header facts for each.

    `starts` and `ends` are positions in `payload`; the lists are as long as there are batches with rows.
    """

    payload: memoryview
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    base_offsets: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    base_timestamps_ms: list[int] = field(default_factory=list)
    append_times_ms: list[int | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLimits:
    """How much goes into one `Frames`: rows and record bytes are soft bounds (a batch of four times the rows is taken apart when it is decoded), `max_unpacked_bytes` a hard one of what a compressed batch opens to (B51)."""

    max_rows: int = 65_536
    max_bytes: int = 8 << 20
    max_unpacked_bytes: int = READER_MAX_DECOMPRESSED_BYTES


class _Aborts:
    """Decides which transactional batches of one answer were aborted (read_committed), in offset order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
        self._active: set[int] = set()

    def hides(self, producer_id: int, last_offset: int) -> bool:
        self._reach(last_offset)
        return producer_id in self._active

    def marker_seen(self, producer_id: int, offset: int) -> None:
        """The transaction is over; where a read begins at its marker, it is one that no batch has told of."""
        self._reach(offset)
        self._active.discard(producer_id)

    def _reach(self, offset: int) -> None:
        while self._waiting and self._waiting[-1][0] <= offset:
            self._active.add(self._waiting.pop()[1])


class _Gathering:
    """Collects batches until they are enough for one `Frames`."""

    def __init__(self, records: memoryview) -> None:
        self._records = records
        self._pieces: list[BytesLike] = []
        self._size = 0
        self._is_unpacked = False
        self.rows = 0
        self.frames = Frames(payload=records)

    @property
    def size(self) -> int:
        return self._size

    def add(self, header: tuple[int, ...], start: int, unpacked: BytesLike | None, end: int) -> None:
        if unpacked is not None and not self._is_unpacked:
            self._move_to_pieces()
        frames = self.frames
        if self._is_unpacked:
            piece = self._records[start:end] if unpacked is None else unpacked
            self._pieces.append(piece)
            start, end = self._size, self._size + len(piece)
        self._size += end - start
        base_offset, _, _, _, _, attributes, last_delta, base_timestamp, max_timestamp, _, _, _, count = header
        _check_count(count, last_delta, end - start, base_offset)
        if not count:
            return
        self.rows += count
        frames.starts.append(start)
        frames.ends.append(end)
        frames.counts.append(count)
        frames.base_offsets.append(base_offset)
        frames.last_offsets.append(base_offset + last_delta)
        frames.base_timestamps_ms.append(base_timestamp)
        frames.append_times_ms.append(max_timestamp if attributes & _APPEND_TIME_BIT else None)

    def _move_to_pieces(self) -> None:
        """From the first compressed batch on, records live in a buffer of their own, one after the other."""
        frames = self.frames
        self._is_unpacked = True
        self._pieces = [self._records[start:end] for start, end in zip(frames.starts, frames.ends, strict=True)]
        self._size = 0
        for index, piece in enumerate(self._pieces):
            frames.starts[index] = self._size
            self._size += len(piece)
            frames.ends[index] = self._size

    def done(self) -> Frames:
        if self._is_unpacked:
            self.frames.payload = memoryview(b"".join(self._pieces))
        return self.frames


def _check_count(count: int, last_delta: int, size: int, base_offset: int) -> None:
    """A count that the bytes cannot hold, or more records than offsets (B43)."""
    if count < 0 or last_delta < 0 or count > last_delta + 1 or count * _SMALLEST_RECORD_BYTES > size:
        raise CorruptRecords(
            f"the batch at offset {base_offset} says {count} records for {last_delta + 1} offsets in {size} bytes"
        )
    if not count and size:
        raise CorruptRecords(f"the batch at offset {base_offset} says 0 records and has {size} bytes of them")


def _check_header(header: tuple[int, ...], body: memoryview, previous_last: int) -> None:
    """The checks that hold for every batch, control batches too: magic, CRC, attributes, order (B40, B41, B45, B52)."""
    base_offset, _, _, magic, crc, attributes, last_delta, *_ = header
    if magic != _MAGIC:
        raise CorruptRecords(f"the batch at offset {base_offset} has magic {magic}; only message format 2 is read")
    if crc32c(body) != crc:
        raise CorruptRecords(f"the batch at offset {base_offset} is damaged: its CRC-32C does not match")
    if attributes & ~_KNOWN_BITS or attributes < 0:
        raise CorruptRecords(f"the batch at offset {base_offset} has unknown attributes {attributes:#x}")
    if base_offset <= previous_last:
        raise CorruptRecords(f"the batch at offset {base_offset} follows one that ends at {previous_last}")
    if last_delta < 0:
        raise CorruptRecords(f"the batch at offset {base_offset} has last offset delta {last_delta}")


def _is_abort_marker(records: memoryview, base_offset: int) -> bool:
    """Read the type out of a control batch's one record: length, attributes, three varints, then version and type in the key."""
    position = 0
    for _ in range(5):
        position = _after_varint(records, position)
    if position + 4 > len(records):
        raise CorruptRecords(f"the control batch at offset {base_offset} is too short")
    return int(_CONTROL_TYPE.unpack_from(records, position)[1]) == _ABORT_MARKER


def _after_varint(records: memoryview, position: int) -> int:
    while position < len(records) and records[position] & 0x80:
        position += 1
    return position + 1


def scan(
    records: memoryview,
    *,
    start_offset: int,
    end_offset: int,
    aborted: Sequence[AbortedTransaction] | None = None,
    limits: FrameLimits | None = None,
) -> Iterator[Frames]:
    """The batches of `records` that may hold offsets from `start_offset` up to `end_offset` (exclusive), in groups within `limits`.

    `aborted` is None to read uncommitted, else the answer's list of aborted transactions, whose batches are left out.
    """
    limits = limits or FrameLimits()
    aborts = None if aborted is None else _Aborts(aborted)
    group = _Gathering(records)
    previous_last = -1
    for header, start, end in _batches(records):
        base_offset, attributes, last_delta, producer_id = header[0], header[5], header[6], header[9]
        if base_offset >= end_offset:
            break
        _check_header(header, records[start - _HEADER.size + _CRC_FROM : end], previous_last)
        previous_last = base_offset + last_delta
        if attributes & _CONTROL_BIT:
            if aborts is not None and _is_abort_marker(records[start:end], base_offset):
                aborts.marker_seen(producer_id, previous_last)
            continue
        is_hidden = aborts is not None and aborts.hides(producer_id, previous_last) and attributes & _TRANSACTIONAL_BIT
        if is_hidden or previous_last < start_offset:
            continue
        if group.rows >= limits.max_rows or group.size >= limits.max_bytes:
            yield group.done()
            group = _Gathering(records)
        codec = attributes & _CODEC_MASK
        unpacked = decompress(codec, records[start:end], max_bytes=limits.max_unpacked_bytes) if codec else None
        group.add(header, start, unpacked, end)
    if group.rows:
        yield group.done()


def _batches(records: memoryview) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Each whole batch: its header's fields and where its records begin and end. B42: a length that no batch has is an error."""
    position, total = 0, len(records)
    while position + _HEADER.size <= total:
        header = _HEADER.unpack_from(records, position)
        end = position + _LENGTH_AT_BYTES + header[1]
        if header[1] < _HEADER.size - _LENGTH_AT_BYTES:
            raise CorruptRecords(f"the batch at offset {header[0]} has length {header[1]}")
        if end > total:
            return
        yield header, position + _HEADER.size, end
        position = end
