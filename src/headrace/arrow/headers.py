"""Header entries of many records as one Arrow list column.

Round k reads the k-th header of every record that has more than k, so the number of passes is that of the record with the most headers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.arrow.columns import RecordFields, Slices
from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.gather import gather_binary, validity
from headrace.arrow.schema import HEADER_TYPE, HEADERS_TYPE
from headrace.arrow.varints import Bytes, Ints, read_ints

_SMALLEST_HEADER_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderEntries:
    """All headers of all records, in record order: where their keys and values lie."""

    counts: Ints
    keys: Slices
    values: Slices


def read_headers(buffer: Bytes, fields: RecordFields) -> HeaderEntries:
    """Find every header entry; also proves that each record ends where its length says (B49)."""
    counts, at, ends = fields.header_counts, fields.headers_at, fields.ends
    if counts.min() < 0 or (counts * _SMALLEST_HEADER_BYTES > ends - at).any():
        raise CorruptRecords("a record's header count does not fit its bytes")
    total = int(counts.sum())
    first_entry = np.cumsum(counts) - counts
    key_starts, key_lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    value_starts, value_lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    at = at.copy() if total else at
    chosen: NDArray[np.intp] = np.flatnonzero(counts)
    index = 0
    while chosen.size:
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
