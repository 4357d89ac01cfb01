"""The encoder of Arrow columns into record batches, without a Python step a record.

Each record is a join of five short binary columns (numbers before the key, key, length of the value, value, headers); Arrow's join lays them
behind one another in one buffer, which is then cut into batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.arrow.batch_settings import BatchSettings
from headrace.arrow.partitioner import binary_parts
from headrace.arrow.varints import Ints, sizes, write_unsigned, zigzag
from headrace.records.compression import compress
from headrace.records.crc import crc32c

_HEADER: Final = struct.Struct(">qiibI")
_TAIL: Final = struct.Struct(">hiqqqhii")
_HEADER_BYTES: Final = _HEADER.size + _TAIL.size
_NO_HEADER: Final = bytes(_HEADER_BYTES)
_BYTES_AFTER_LENGTH: Final = _HEADER_BYTES - 12
_MAGIC: Final = 2
_NO_PRODUCER: Final = -1
_MOST_NUMBER_BYTES: Final = 24
_EMPTY: Final = pa.scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """The columns of rows to write, all of one length: `value` binary, `key` binary or None, `headers` as in `schema` or None."""

    value: pa.Array
    key: pa.Array | None = None
    headers: pa.Array | None = None

    def take(self, rows: pa.Array) -> RowColumns:
        """These rows only, in this order."""
        return RowColumns(
            value=self.value.take(rows),
            key=None if self.key is None else self.key.take(rows),
            headers=None if self.headers is None else self.headers.take(rows),
        )


def encode_batches(rows: RowColumns, *, now_ms: int, settings: BatchSettings) -> Iterator[bytearray]:
    """The rows in order as whole record batches (v2) with base offset 0, timestamp `now_ms`, no producer id, and a right CRC.

    Raises ValueError for a header without a key.
    """
    count = len(rows.value)
    if not count:
        return
    headers = _header_bytes(rows.headers, count)
    key, key_lengths = _with_lengths(rows.key, count)
    value, value_lengths = _with_lengths(rows.value, count)
    header_lengths = _lengths(headers)
    room = _MOST_NUMBER_BYTES + np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0) + header_lengths
    cuts = _cuts(room, settings.max_batch_bytes - _HEADER_BYTES)
    deltas = _deltas(cuts)
    numbers = _Numbers(deltas, key_lengths, value_lengths, header_lengths)
    records = pc.binary_join_element_wise(numbers.before_key(), key, numbers.before_value(), value, headers, _EMPTY)
    data, bounds = binary_parts(records)
    for first, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        yield _batch(data[bounds[first] : bounds[end]], end - first, now_ms, settings)


class _Numbers:
    """The varints of all records, as short binary columns."""

    def __init__(self, deltas: Ints, key_lengths: Ints, value_lengths: Ints, header_lengths: Ints) -> None:
        self._deltas, self._keys, self._values = zigzag(deltas), zigzag(key_lengths), zigzag(value_lengths)
        self._sizes = tuple(sizes(each) for each in (self._deltas, self._keys, self._values))
        body = 2 + sum(self._sizes) + np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0) + header_lengths
        self._body = zigzag(body)

    def before_key(self) -> pa.Array:
        """Length of the record, attributes 0, timestamp delta 0, offset delta, length of the key."""
        body_sizes = sizes(self._body)
        delta_sizes, key_sizes, _ = self._sizes
        bounds = _bounds(body_sizes + 2 + delta_sizes + key_sizes)
        buffer = np.zeros(int(bounds[-1]), dtype=np.uint8)
        at = bounds[:-1]
        write_unsigned(buffer, at, self._body, body_sizes)
        at = at + body_sizes + 2
        write_unsigned(buffer, at, self._deltas, delta_sizes)
        write_unsigned(buffer, at + delta_sizes, self._keys, key_sizes)
        return _binary(buffer, bounds)

    def before_value(self) -> pa.Array:
        """Length of the value."""
        return _varint_column(self._values, self._sizes[2])


def _varint_column(raw: NDArray[np.uint64], lengths: Ints) -> pa.Array:
    bounds = _bounds(lengths)
    buffer = np.zeros(int(bounds[-1]), dtype=np.uint8)
    write_unsigned(buffer, bounds[:-1], raw, lengths)
    return _binary(buffer, bounds)


def _bounds(lengths: Ints) -> Ints:
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _binary(buffer: NDArray[np.uint8], bounds: Ints) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(buffer)]
    )


def _lengths(column: pa.Array) -> Ints:
    return np.diff(binary_parts(column)[1])


def _with_lengths(column: pa.Array | None, count: int) -> tuple[pa.Array, Ints]:
    """The column with empty bytes for nulls, and its lengths with -1 for nulls."""
    if column is None or column.null_count == count:
        return pa.repeat(_EMPTY, count), np.full(count, -1, dtype=np.int64)
    if not column.null_count:
        return column, _lengths(column)
    filled = column.fill_null(b"")
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    return filled, np.where(is_valid, _lengths(filled), -1)


def _header_bytes(headers: pa.Array | None, count: int) -> pa.Array:
    """For each record the number of headers and then their bytes."""
    if headers is None or headers.null_count == count:
        return pa.repeat(pa.scalar(b"\x00", pa.binary()), count)
    counts = pc.fill_null(headers.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = headers.flatten()
    keys, values = entries.field(0), entries.field(1)
    if entries.null_count or keys.null_count:
        raise ValueError("a header has no key; every header needs one")
    number_of = zigzag(counts)
    number_column = _varint_column(number_of, sizes(number_of))
    if not len(entries):
        return number_column
    key_column, key_lengths = _with_lengths(keys.cast(pa.binary()), len(entries))
    value_column, value_lengths = _with_lengths(values, len(entries))
    raw_keys, raw_values = zigzag(key_lengths), zigzag(value_lengths)
    joined = pc.binary_join_element_wise(
        _varint_column(raw_keys, sizes(raw_keys)), key_column,
        _varint_column(raw_values, sizes(raw_values)), value_column, _EMPTY,
    )  # fmt: skip
    _, bounds = binary_parts(joined)
    a_record = _binary(np.frombuffer(joined.buffers()[2], dtype=np.uint8), bounds[_bounds(counts)])
    return pc.binary_join_element_wise(number_column, a_record, _EMPTY)


def _cuts(room: Ints, limit: int) -> Ints:
    """Row numbers at which batches begin, and the row count at the end: as many rows a batch as have room, at least one."""
    ends = np.cumsum(room)
    cuts, used = [0], 0
    while cuts[-1] < len(room):
        first = cuts[-1]
        end = int(np.searchsorted(ends, used + limit, side="right"))
        cuts.append(max(end, first + 1))
        used = int(ends[cuts[-1] - 1])
    return np.array(cuts, dtype=np.int64)


def _deltas(cuts: Ints) -> Ints:
    """Each row's number within its batch."""
    return np.arange(cuts[-1], dtype=np.int64) - np.repeat(cuts[:-1], np.diff(cuts))


def _batch(records: memoryview, count: int, now_ms: int, settings: BatchSettings) -> bytearray:
    """One batch around ready records."""
    packed: bytes | memoryview = records
    codec = settings.codec
    if codec:
        packed = compress(codec, records, level=settings.level)
    batch = bytearray().join((_NO_HEADER, packed))  # bytearray(size) would write zeros below all of it first
    _TAIL.pack_into(
        batch, _HEADER.size, codec, count - 1, now_ms, now_ms, _NO_PRODUCER, _NO_PRODUCER, _NO_PRODUCER, count
    )
    crc = crc32c(memoryview(batch)[_HEADER.size :])
    _HEADER.pack_into(batch, 0, 0, _BYTES_AFTER_LENGTH + len(packed), -1, _MAGIC, crc)
    return batch
