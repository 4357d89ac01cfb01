"""Records of neighbouring batches as Arrow columns, without a Python step a record.

The way: find where each record begins (`record_ends`), read the fields of all records at once (`varints`), then gather keys and values. All record
bytes are accounted for: fields that do not end where the record's length says are a `DecodeError` (B49), and so are offsets out of order.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.frames import Frames
from headrace.arrow.gather import gather_binary
from headrace.arrow.record_ends import record_ends
from headrace.arrow.schema import TIMESTAMP_TYPE
from headrace.arrow.varints import Bytes, Ints, read_ints, read_longs

_US_PER_MS: Final = 1000
_MAX_TIMESTAMP_MS: Final = (1 << 63) // _US_PER_MS - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Where the bytes of a nullable binary field lie, for each record: length -1 means null."""

    starts: Ints
    lengths: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """The fields of all records of some batches; `counts` has the records of each batch, `headers_at` is where each record's first header begins."""

    counts: Ints
    offsets: Ints
    timestamp_deltas: Ints
    keys: Slices
    values: Slices
    header_counts: Ints
    headers_at: Ints
    ends: Ints


def read_fields(frames: Frames) -> RecordFields:
    """Read every field but the header entries of every record of `frames`."""
    buffer: Bytes = np.frombuffer(frames.payload, dtype=np.uint8)
    counts = frames.counts
    ends, at = _extents(frames, buffer, counts)
    timestamp_deltas, at = read_longs(buffer, at + 1)
    offset_deltas, at = read_ints(buffer, at)
    keys, at = _read_slices(buffer, at, ends)
    values, at = _read_slices(buffer, at, ends)
    header_counts, at = read_ints(buffer, at)
    offsets = np.repeat(frames.base_offsets, counts) + offset_deltas
    last_offsets = np.repeat(frames.last_offsets, counts)
    _check_offsets(offsets, offset_deltas, last_offsets)
    return RecordFields(
        counts=counts, offsets=offsets, timestamp_deltas=timestamp_deltas, keys=keys, values=values,
        header_counts=header_counts, headers_at=at, ends=ends,
    )  # fmt: skip


def _extents(frames: Frames, buffer: Bytes, counts: Ints) -> tuple[Ints, Ints]:
    """The end of each record and the position after its length; suppositions about batches that look alike are proved or dropped."""
    found = record_ends(frames, may_suppose=True)
    if not found.is_certain:
        with suppress(CorruptRecords):
            return found.positions, _after_lengths(frames, buffer, counts, found.positions)
        found = record_ends(frames, may_suppose=False)
    return found.positions, _after_lengths(frames, buffer, counts, found.positions)


def _after_lengths(frames: Frames, buffer: Bytes, counts: Ints, ends: Ints) -> Ints:
    """The position after each record's length; raises CorruptRecords unless all lengths lead exactly from end to end."""
    starts = np.empty_like(ends)
    starts[1:] = ends[:-1]
    starts[np.cumsum(counts) - counts] = frames.starts
    lengths, at = read_ints(buffer, starts)
    if lengths.min() < 0 or (at + lengths != ends).any():
        raise CorruptRecords("record lengths do not lead from one record to the next")
    return at


def _read_slices(buffer: Bytes, at: Ints, ends: Ints) -> tuple[Slices, Ints]:
    """A length-prefixed nullable field; its bytes must lie within the record."""
    lengths, starts = read_ints(buffer, at)
    smallest = lengths.min()
    after = starts
    if lengths.max() > 0:
        after = starts + (lengths if smallest >= 0 else np.maximum(lengths, 0))
    if smallest < -1 or (after > ends).any():
        raise CorruptRecords("a key or value does not lie within its record")
    return Slices(starts=starts, lengths=lengths), after


def _check_offsets(offsets: Ints, deltas: Ints, last_offsets: Ints) -> None:
    if deltas.min() < 0 or (offsets > last_offsets).any() or (offsets[1:] <= offsets[:-1]).any():
        raise CorruptRecords("record offsets are out of order or outside their batch")


def append_time_flags(frames: Frames, fields: RecordFields) -> NDArray[np.bool_]:
    """Whether each record's time is that at which it was appended."""
    return np.repeat(frames.is_append_time, fields.counts)


def record_times(frames: Frames, fields: RecordFields) -> Ints:
    """Each record's time in ms: base plus delta, or the batch's append time where the log set it."""
    deltas = fields.timestamp_deltas
    if frames.is_append_time.any():
        deltas = np.where(append_time_flags(frames, fields), 0, deltas)
    _check_times(frames.times_ms)
    _check_times(deltas)
    times = np.repeat(frames.times_ms, fields.counts) + deltas
    _check_times(times)
    return times


def _check_times(times_ms: Ints) -> None:
    if max(-int(times_ms.min()), int(times_ms.max())) > _MAX_TIMESTAMP_MS:
        raise CorruptRecords("a timestamp is outside the range of microseconds in 64 bits (B48)")


def binary_column(buffer: memoryview, slices: Slices) -> pa.Array:
    """A nullable binary column of the bytes that `slices` point at."""
    return gather_binary(buffer, slices.starts, slices.lengths)


def long_column(values: Ints) -> pa.Array:
    """An int64 column over the array's own memory."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def timestamp_column(times_ms: Ints) -> pa.Array:
    """A UTC timestamp column in microseconds out of milliseconds."""
    return pa.Array.from_buffers(TIMESTAMP_TYPE, len(times_ms), [None, pa.py_buffer(times_ms * _US_PER_MS)])
