"""The batches of a fetch response that hold rows, and where their records lie.

One Python step a batch leads from header to header, and one takes its CRC; all headers of an answer are then read at once. Every header field that the columns
are computed from is checked here; what cannot be right raises `DecodeError` (B40-B43, B45, B52). A batch that is cut off at the end of the answer is left for the
next fetch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.varints import Ints
from headrace.core.ports import BytesLike
from headrace.records.compression import READER_MAX_DECOMPRESSED_BYTES, decompress
from headrace.records.crc import crc32c

_PLACE: Final = struct.Struct(">qi")
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("last_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
        ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4"),
    ]
)  # fmt: skip
_HEADER_BYTES: Final = _HEADER.itemsize
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Some neighbouring batches: their record bytes in one buffer, and of each that has rows what its header says.

    `starts` and `ends` are positions in `payload`; a batch of which `is_append_time` is true has one time for all its records.
    """

    payload: memoryview
    starts: Ints
    ends: Ints
    counts: Ints
    base_offsets: Ints
    last_offsets: Ints
    times_ms: Ints
    is_append_time: NDArray[np.bool_]

    def one(self, index: int, *, start: int, end: int, count: int) -> Frames:
        """A batch of these, or records in the middle of it as if they were one."""
        only = slice(index, index + 1)
        return Frames(
            payload=self.payload,
            starts=np.array([start]),
            ends=np.array([end]),
            counts=np.array([count]),
            base_offsets=self.base_offsets[only],
            last_offsets=self.last_offsets[only],
            times_ms=self.times_ms[only],
            is_append_time=self.is_append_time[only],
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batches:
    """The headers of whole batches and where the record bytes of each lie in the answer."""

    headers: NDArray[np.void]
    starts: Ints
    ends: Ints

    def __getitem__(self, chosen: Any) -> _Batches:
        return _Batches(headers=self.headers[chosen], starts=self.starts[chosen], ends=self.ends[chosen])

    def __len__(self) -> int:
        return len(self.starts)

    def ints(self, name: str) -> Ints:
        """A header field of all batches in this machine's order of bytes."""
        return self.headers[name].astype(np.int64)

    @property
    def last_offsets(self) -> Ints:
        return self.ints("base_offset") + self.ints("last_delta")


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
    batches = _batches(records, end_offset)
    if not len(batches):
        return
    _check_headers(records, batches)
    is_wanted = (batches.ints("attributes") & _CONTROL_BIT == 0) & (batches.last_offsets >= start_offset)
    if aborted is not None:
        is_wanted[_hidden(records, batches, aborted)] = False
    wanted = batches if is_wanted.all() else batches[is_wanted]
    yield from _unpacked(records, wanted, limits) if _codecs(wanted).any() else _plain(records, wanted, limits)


def _codecs(batches: _Batches) -> Ints:
    return batches.ints("attributes") & _CODEC_MASK


def _batches(records: memoryview, end_offset: int) -> _Batches:
    """Each whole batch that begins below `end_offset`. B42: a length that no batch has is an error."""
    position, total = 0, len(records)
    positions = []
    while position + _HEADER_BYTES <= total:
        base_offset, length = _PLACE.unpack_from(records, position)
        end = position + _LENGTH_AT_BYTES + length
        if length < _HEADER_BYTES - _LENGTH_AT_BYTES:
            raise CorruptRecords(f"the batch at offset {base_offset} has length {length}")
        if end > total or base_offset >= end_offset:
            break
        positions.append(position)
        position = end
    begins = np.array(positions, dtype=np.int64)
    everywhere: NDArray[np.void] = np.ndarray(
        (max(total - _HEADER_BYTES + 1, 0),), dtype=_HEADER, buffer=records, strides=(1,)
    )
    ends = np.append(begins[1:], position) if positions else begins
    return _Batches(headers=everywhere[begins], starts=begins + _HEADER_BYTES, ends=ends)


def _check_headers(records: memoryview, batches: _Batches) -> None:
    """The checks that hold for every batch, control batches too: magic, CRC, attributes, order (B40, B41, B45, B52)."""
    headers = batches.headers
    bodies = (batches.starts - _HEADER_BYTES + _CRC_FROM).tolist()
    crcs = np.array([crc32c(records[at:end]) for at, end in zip(bodies, batches.ends.tolist(), strict=True)])
    attributes, last_delta = batches.ints("attributes"), batches.ints("last_delta")
    base_offsets = batches.ints("base_offset")
    previous = np.append(-1, batches.last_offsets[:-1])
    for is_bad, what in (
        (headers["magic"] != _MAGIC, "has magic {magic}; only message format 2 is read"),
        (headers["crc"] != crcs, "is damaged: its CRC-32C does not match"),
        ((attributes & ~_KNOWN_BITS) != 0, "has unknown attributes {attributes:#x}"),
        (base_offsets <= previous, "follows one that ends at {previous}"),
        (last_delta < 0, "has last offset delta {last_delta}"),
    ):
        if is_bad.any():
            first = int(is_bad.argmax())
            facts = {name: headers[name][first].item() for name in ("magic", "attributes", "last_delta")}
            told = what.format(previous=previous[first], **facts)
            raise CorruptRecords(f"the batch at offset {base_offsets[first]} {told}")


def _hidden(records: memoryview, batches: _Batches, aborted: Sequence[AbortedTransaction]) -> list[int]:
    """Which batches are of aborted transactions."""
    aborts = _Aborts(aborted)
    found = []
    attributes, producer_ids, last_offsets = (
        batches.ints("attributes"),
        batches.ints("producer_id"),
        batches.last_offsets,
    )
    for index in np.flatnonzero(attributes & (_CONTROL_BIT | _TRANSACTIONAL_BIT)).tolist():
        producer_id, last_offset = int(producer_ids[index]), int(last_offsets[index])
        if attributes[index] & _CONTROL_BIT:
            base_offset = last_offset - int(batches.headers["last_delta"][index])
            if _is_abort_marker(records[batches.starts[index] : batches.ends[index]], base_offset):
                aborts.marker_seen(producer_id, last_offset)
        elif aborts.hides(producer_id, last_offset):
            found.append(index)
    return found


def _plain(records: memoryview, batches: _Batches, limits: FrameLimits) -> Iterator[Frames]:
    """Groups of batches that lie in the answer as they are read."""
    first = 0
    sizes = batches.ends - batches.starts
    rows, used = (np.cumsum(each) for each in (np.maximum(batches.ints("count"), 0), sizes))
    while first < len(batches):
        rows_before, used_before = (int(each[first - 1]) if first else 0 for each in (rows, used))
        end = 1 + min(
            int(np.searchsorted(rows, rows_before + limits.max_rows)),
            int(np.searchsorted(used, used_before + limits.max_bytes)),
        )
        yield from _frames(records, batches[first:end])
        first = end


def _unpacked(records: memoryview, batches: _Batches, limits: FrameLimits) -> Iterator[Frames]:
    """Groups of batches of which some are compressed: their records in a buffer of the group's own, one batch after the other."""
    pieces: list[BytesLike] = []
    first, size, rows = 0, 0, 0
    facts = (batches.starts, batches.ends, _codecs(batches), batches.ints("count"))
    for index, (start, end, codec, count) in enumerate(zip(*(each.tolist() for each in facts), strict=True)):
        if rows >= limits.max_rows or size >= limits.max_bytes:
            yield from _joined(pieces, batches[first:index])
            pieces = []
            first, size, rows = index, 0, 0
        packed = records[start:end]
        pieces.append(decompress(codec, packed, max_bytes=limits.max_unpacked_bytes) if codec else packed)
        size += len(pieces[-1])
        rows += count
    yield from _joined(pieces, batches[first:])


def _joined(pieces: list[BytesLike], batches: _Batches) -> Iterator[Frames]:
    ends = np.cumsum([len(each) for each in pieces])
    starts = np.append(0, ends[:-1])
    payload = memoryview(b"".join(pieces) if len(pieces) > 1 else pieces[0])
    return _frames(payload, _Batches(headers=batches.headers, starts=starts, ends=ends))


def _frames(payload: memoryview, batches: _Batches) -> Iterator[Frames]:
    """One group, unless none of its batches has rows."""
    _check_counts(batches)
    is_full = batches.headers["count"] > 0
    full = batches if is_full.all() else batches[is_full]
    if len(full):
        is_append_time = (full.ints("attributes") & _APPEND_TIME_BIT) != 0
        yield Frames(
            payload=payload,
            starts=full.starts,
            ends=full.ends,
            counts=full.ints("count"),
            base_offsets=full.ints("base_offset"),
            last_offsets=full.last_offsets,
            times_ms=np.where(is_append_time, full.ints("max_timestamp"), full.ints("base_timestamp")),
            is_append_time=is_append_time,
        )


def _check_counts(batches: _Batches) -> None:
    """A count that the bytes cannot hold, or more records than offsets (B43)."""
    counts, sizes, offsets = batches.ints("count"), batches.ends - batches.starts, batches.ints("last_delta") + 1
    is_bad = (counts < 0) | (counts > offsets) | (counts * _SMALLEST_RECORD_BYTES > sizes)
    is_bad |= (counts == 0) & (sizes > 0)
    if is_bad.any():
        first = int(is_bad.argmax())
        raise CorruptRecords(
            f"the batch at offset {batches.headers['base_offset'][first]} says {counts[first]} records for "
            f"{offsets[first]} offsets in {sizes[first]} bytes"
        )
