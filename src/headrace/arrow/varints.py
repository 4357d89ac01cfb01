"""Zigzag varints, read and written for many records at once.

Positions and values are int64 arrays. Nothing here loops over records: one pass over all of them for each byte of the longest varint.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.arrow.corrupt import CorruptRecords

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]

MAX_INT_BYTES: Final = 5
MAX_LONG_BYTES: Final = 10
_MORE: Final = np.uint8(0x80)
_SEVEN_BITS: Final = np.uint8(0x7F)
_SEVEN: Final = np.uint16(7)
_ONE: Final = np.uint16(1)
_SIGNED: Final[Ints] = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(128)], dtype=np.int64)
"""What the zigzag varints of one byte mean."""


def read_unsigned(buffer: Bytes, positions: Ints, max_bytes: int) -> tuple[Ints, Ints]:
    """The raw (not yet zigzag) varints at `positions`, as the bits of int64, and the positions after them.

    Raises DecodeError for one that runs past the buffer or past `max_bytes` (B9).
    """
    try:
        first = buffer.take(positions)
    except IndexError:
        raise CorruptRecords("a record ends before its fields do") from None
    values = first.astype(np.int64)
    after = positions + 1
    pending = np.flatnonzero(first & 0x80)
    if not pending.size:
        return values, after
    values[pending] &= 0x7F
    return _read_more(buffer, values, after, pending, max_bytes)


def _read_more(
    buffer: Bytes, values: Ints, after: Ints, pending: NDArray[np.intp], max_bytes: int
) -> tuple[Ints, Ints]:
    """The second and later bytes, for those records that have them."""
    is_whole = pending.size == values.size
    for index in range(1, max_bytes):
        at = after if is_whole else after[pending]
        if at.max() >= buffer.size:
            raise CorruptRecords("a record ends before its fields do")
        byte = buffer.take(at).astype(np.int64)
        if index == MAX_LONG_BYTES - 1 and byte.max() > 1:
            raise CorruptRecords("a varint does not fit 64 bits")
        bits = (byte & 0x7F) << (7 * index)
        if is_whole:
            values |= bits
            after += 1
        else:
            values[pending] |= bits
            after[pending] += 1
        more = np.flatnonzero(byte & 0x80)
        if not more.size:
            return values, after
        pending = more if is_whole else pending[more]
        is_whole = False
    raise CorruptRecords(f"a varint is longer than {max_bytes} bytes")


def unzigzag(values: Ints) -> Ints:
    """Zigzag to signed: 0, 1, 2, 3 ... means 0, -1, 1, -2 ..."""
    return ((values >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(values & 1)


def _read_short(buffer: Bytes, positions: Ints) -> tuple[Ints, Ints] | None:
    """Signed varints of one or two bytes, which nearly all are, in few passes over narrow integers; None where any is longer, or the buffer ends."""
    try:
        first = buffer.take(positions)
        if not first.size or first.max() < _MORE:
            return _SIGNED.take(first), positions + 1
        second = buffer.take(positions + 1)
    except IndexError:
        return None
    has_two = first >= _MORE
    second *= has_two
    if second.max() >= _MORE:
        return None
    raw = (first & _SEVEN_BITS) | (second.astype(np.uint16) << _SEVEN)
    signed = (raw >> _ONE) ^ -(raw & _ONE)
    return signed.view(np.int16).astype(np.int64), positions + 1 + has_two


def read_ints(buffer: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """Signed 32-bit varints; one that does not fit 32 bits is refused (B9)."""
    found = _read_short(buffer, positions)
    if found is not None:
        return found
    raw, after = read_unsigned(buffer, positions, MAX_INT_BYTES)
    if raw.size and raw.max() > 0xFFFF_FFFF:
        raise CorruptRecords("a varint does not fit 32 bits")
    return unzigzag(raw), after


def read_longs(buffer: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """Signed 64-bit varints."""
    found = _read_short(buffer, positions)
    if found is not None:
        return found
    raw, after = read_unsigned(buffer, positions, MAX_LONG_BYTES)
    return unzigzag(raw), after


def zigzag(values: Ints) -> NDArray[np.uint64]:
    """Signed to zigzag, as unsigned 64-bit."""
    return ((values << 1) ^ (values >> 63)).astype(np.uint64)


def sizes(raw: NDArray[np.uint64]) -> Ints:
    """How many bytes (1-10) each unsigned varint takes."""
    result = np.ones(raw.shape, dtype=np.int64)
    largest = int(raw.max()) if raw.size else 0
    for index in range(1, MAX_LONG_BYTES):
        floor = 1 << (7 * index)
        if largest < floor:
            break
        result += raw >= np.uint64(floor)
    return result


def write_unsigned(buffer: Bytes, positions: Ints, raw: NDArray[np.uint64], lengths: Ints) -> None:
    """Put each varint at its position; `lengths` are its `sizes`."""
    longest = int(lengths.max()) if lengths.size else 0
    if longest <= 1:
        buffer[positions] = raw
        return
    buffer[positions] = (raw & np.uint64(0x7F)) | ((lengths > 1).astype(np.uint64) << np.uint64(7))
    for index in range(1, longest):
        chosen = np.flatnonzero(lengths > index)
        byte = (raw[chosen] >> np.uint64(7 * index)) & np.uint64(0x7F)
        more = (lengths[chosen] > index + 1).astype(np.uint64) << np.uint64(7)
        buffer[positions[chosen] + index] = byte | more
