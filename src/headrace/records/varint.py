"""The numbers inside a record: zigzag varints of at most 5 (int) or 10 (long) bytes."""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ports import BytesLike


def read_varint(data: BytesLike, position: int) -> tuple[int, int]:
    """(value, position after it) of a signed 32-bit varint; PeerError(INVALID_RECORD) if it is cut off or too long."""
    try:
        byte = data[position]
        if byte < 0x80:  # most numbers in a record have one byte, nearly all others two
            return (byte >> 1) ^ -(byte & 1), position + 1
        high = data[position + 1]
        if high < 0x80:
            value = (byte & 0x7F) | high << 7
            return (value >> 1) ^ -(value & 1), position + 2
    except IndexError:
        raise _cut_off() from None
    return _read_long(data, position, 5, 32)


def read_varlong(data: BytesLike, position: int) -> tuple[int, int]:
    """(value, position after it) of a signed 64-bit varint; PeerError(INVALID_RECORD) if it is cut off or too long."""
    try:
        byte = data[position]
    except IndexError:
        raise _cut_off() from None
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long(data, position, 10, 64)


def _cut_off() -> PeerError:
    return PeerError(ErrorCode.INVALID_RECORD, "record ends inside a number")


def _read_long(data: BytesLike, position: int, max_bytes: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    try:
        for _ in range(max_bytes):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return (value >> 1) ^ -(value & 1), position
            shift += 7
    except IndexError:
        raise _cut_off() from None
    raise PeerError(ErrorCode.INVALID_RECORD, f"number of more than {bits} bits in a record")


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed number as a zigzag varint; -1 becomes one byte."""
    if 0 <= value < 64:
        out.append(value << 1)
        return
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def varint_size(value: int) -> int:
    """Bytes that `write_varint` would append."""
    return max(1, (((value << 1) ^ (value >> 63)).bit_length() + 6) // 7)
