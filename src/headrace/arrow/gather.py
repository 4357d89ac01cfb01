"""The copy of many fields out of one buffer into a binary column.

Fields of one length are copied as fixed-size items; others by Arrow's `take` over an array whose every second element is a wanted field.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.arrow.varints import Bytes, Ints

_MAX_COLUMN_BYTES: Final = (1 << 31) - 1
_MAX_ITEM_BYTES: Final = 1 << 16


def gather_binary(buffer: memoryview, starts: Ints, lengths: Ints) -> pa.Array:
    """The column of fields that begin at `starts`; a length of -1 is null. All fields must lie within `buffer`, in ascending order."""
    count = len(starts)
    if not count:
        return pa.nulls(0, pa.binary())
    shortest, longest = int(lengths.min()), int(lengths.max())
    if len(buffer) > _MAX_COLUMN_BYTES:
        raise ValueError("the buffer is larger than an Arrow binary array can address")
    if longest <= 0:
        return _empty_column(lengths, all_null=longest < 0)
    if shortest == longest <= _MAX_ITEM_BYTES:
        return _gather_equal(buffer, starts, longest)
    return _gather_mixed(buffer, starts, lengths, has_nulls=shortest < 0)


def validity(lengths: Ints) -> pa.Buffer:
    """The validity bitmap where a negative length is null."""
    return pa.py_buffer(np.packbits(lengths >= 0, bitorder="little"))


def _empty_column(lengths: Ints, *, all_null: bool) -> pa.Array:
    count = len(lengths)
    if all_null:
        return pa.nulls(count, pa.binary())
    offsets = pa.py_buffer(np.zeros(count + 1, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), count, [validity(lengths), offsets, pa.py_buffer(b"")])


def _gather_equal(buffer: memoryview, starts: Ints, length: int) -> pa.Array:
    windows: np.ndarray[tuple[int], np.dtype[np.void]] = np.ndarray(
        (len(buffer) - length + 1,), dtype=f"V{length}", buffer=buffer, strides=(1,)
    )
    data = windows[starts]
    offsets = np.arange(0, (len(starts) + 1) * length, length, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data.view(np.uint8))]
    )


def _gather_mixed(buffer: memoryview, starts: Ints, lengths: Ints, *, has_nulls: bool) -> pa.Array:
    count = len(starts)
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts
    bounds[1::2] += np.maximum(lengths, 0).astype(np.int32) if has_nulls else lengths.astype(np.int32)
    spans = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
    evens = pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))
    column = spans.take(pa.Array.from_buffers(pa.int32(), count, [None, evens]))
    if not has_nulls:
        return column
    _, offsets, data = column.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [validity(lengths), offsets, data])


def as_bytes(buffer: memoryview) -> Bytes:
    """The buffer as an array of bytes, not copied."""
    return np.frombuffer(buffer, dtype=np.uint8)
