"""Header entries of many records as one Arrow list column.

Round k reads the k-th header of every record that has more than k, while there are enough such records; the rest of the few that have many is read record by record.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.arrow.columns import RecordFields, Slices
from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.gather import gather_binary, validity
from headrace.arrow.schema import HEADER_TYPE, HEADERS_TYPE
from headrace.arrow.varints import MAX_INT_BYTES, Bytes, Ints, read_ints
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError

MOST_HEADERS: Final = 8 << 20
"""So many headers of neighbouring records take a quarter of a gigabyte beside their bytes; packed they may be a few hundred."""
_SMALLEST_HEADER_BYTES = 2
_FEW_RECORDS = 32
"""A pass over so many records takes as long as to read a header of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderEntries:
    """All headers of all records, in record order: where their keys and values lie."""

    counts: Ints
    keys: Slices
    values: Slices


def read_headers(buffer: Bytes, fields: RecordFields) -> HeaderEntries:
    """Find every header entry; also proves that each record ends where its length says (B49). Raises PeerError(MESSAGE_TOO_LARGE) above `MOST_HEADERS`."""
    counts, at, ends = fields.header_counts, fields.headers_at, fields.ends
    if counts.min() < 0 or (counts * _SMALLEST_HEADER_BYTES > ends - at).any():
        raise CorruptRecords("a record's header count does not fit its bytes")
    total = int(counts.sum())
    if total > MOST_HEADERS:
        raise PeerError(
            ErrorCode.MESSAGE_TOO_LARGE, f"{len(counts)} records have {total} headers, more than {MOST_HEADERS}"
        )
    first_entry = np.cumsum(counts) - counts
    key_starts, key_lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    value_starts, value_lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    at = at.copy() if total else at
    chosen: NDArray[np.intp] = np.flatnonzero(counts)
    index = 0
    while chosen.size >= _FEW_RECORDS or (chosen.size and index < _FEW_RECORDS):
        entry = first_entry[chosen] + index
        here, limit = at[chosen], ends[chosen]
        key_lengths[entry], here = _read_length(buffer, here, limit, smallest=0)
        key_starts[entry] = here
        here = here + key_lengths[entry]
        value_lengths[entry], here = _read_length(buffer, here, limit, smallest=-1)
        value_starts[entry] = here
        at[chosen] = here + np.maximum(value_lengths[entry], 0)
        index += 1
        chosen = chosen[counts[chosen] > index]
    for row in chosen:
        rest = _Rest(buffer.data, int(at[row]), int(ends[row]), int(counts[row]) - index)
        entries = slice(int(first_entry[row]) + index, int(first_entry[row] + counts[row]))
        key_starts[entries], key_lengths[entries] = rest.key_starts, rest.key_lengths
        value_starts[entries], value_lengths[entries] = rest.value_starts, rest.value_lengths
        at[row] = rest.at
    if (at != ends).any():
        raise CorruptRecords("a record's fields do not end where its length says")
    return HeaderEntries(
        counts=counts,
        keys=Slices(starts=key_starts, lengths=key_lengths),
        values=Slices(starts=value_starts, lengths=value_lengths),
    )


def _read_length(buffer: Bytes, at: Ints, ends: Ints, *, smallest: int) -> tuple[Ints, Ints]:
    lengths, after = read_ints(buffer, at)
    if lengths.min() < smallest or (after + np.maximum(lengths, 0) > ends).any():
        raise CorruptRecords("a header does not lie within its record")
    return lengths, after


class _Rest:
    """The headers of one record from one of them on, read one after the other."""

    def __init__(self, data: memoryview, at: int, end: int, count: int) -> None:
        self._data = data
        self._end = end
        self.at = at
        self.key_starts, self.key_lengths = array("q"), array("q")
        self.value_starts, self.value_lengths = array("q"), array("q")
        for _ in range(count):
            length = self._length(smallest=0)
            self.key_starts.append(self.at)
            self.key_lengths.append(length)
            self.at += length
            length = self._length(smallest=-1)
            self.value_starts.append(self.at)
            self.value_lengths.append(length)
            self.at += max(length, 0)

    def _length(self, *, smallest: int) -> int:
        raw = 0
        for place in range(MAX_INT_BYTES):
            if self.at >= self._end:
                raise CorruptRecords("a record ends before its fields do")
            byte = self._data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        else:
            raise CorruptRecords(f"a varint is longer than {MAX_INT_BYTES} bytes")
        length = (raw >> 1) ^ -(raw & 1)
        if raw > 0xFFFF_FFFF or length < smallest or self.at + max(length, 0) > self._end:
            raise CorruptRecords("a header does not lie within its record")
        return length


def headers_column(payload: memoryview, entries: HeaderEntries) -> pa.Array:
    """The column `headers`: a list of (key, value) a record, null for a record without headers, as in Spark's `kafka` source."""
    counts = entries.counts
    if not len(entries.keys.starts):
        return pa.nulls(len(counts), HEADERS_TYPE)
    keys = _utf8(gather_binary(payload, entries.keys.starts, entries.keys.lengths))
    values = gather_binary(payload, entries.values.starts, entries.values.lengths)
    items = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    offsets = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    is_null = np.where(counts > 0, 0, -1)
    return pa.Array.from_buffers(
        HEADERS_TYPE, len(counts), [validity(is_null), pa.py_buffer(offsets)], children=[items]
    )


def _utf8(column: pa.Array) -> pa.Array:
    """Binary as text; what is not UTF-8 is replaced by U+FFFD, as a Java consumer does."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([bytes(each.as_py()).decode("utf-8", errors="replace") for each in column], type=pa.string())
