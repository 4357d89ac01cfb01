"""Unsigned varints, and when one is refused.

Seven bits a byte, lowest first, at most five bytes and 32 bits. Longer, larger or padded ones are refused. Source: KIP-482, B9.
"""

from __future__ import annotations

from typing import Final

from headrace.core.errors import DecodeError

Buffer = bytes | bytearray | memoryview

MAX_UVARINT: Final = 0xFFFFFFFF
MAX_TAGS: Final = 10_000
"""How many tagged fields one struct may have: no definition of Kafka's has more than ten, and to skip a million takes a second."""
_LAST_SHIFT = 28
_LAST_BYTE_LIMIT = 0x0F


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The number at `pos` and the position after it. Raises DecodeError, or IndexError at the end of the bytes."""
    first = buf[pos]
    if first < 0x80:
        return first, pos + 1
    return continue_uvarint(buf, pos + 1, first)


def continue_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """As `read_uvarint`, when the first byte is read already and says that more follow; `pos` is behind it."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        if shift == _LAST_SHIFT and byte > _LAST_BYTE_LIMIT:
            raise DecodeError("a varint has more than 32 bits")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0:
                raise DecodeError("a varint is padded")
            return value, pos
        shift += 7


def skip_tags(buf: Buffer, pos: int) -> int:
    """The position behind a section of tagged fields none of which we know. Raises DecodeError or IndexError.

    Tags must ascend and every size must fit. Source: KIP-482, B8, B-W03.
    """
    count, pos = read_uvarint(buf, pos)
    end = len(buf)
    if count * 2 > end - pos or count > MAX_TAGS:
        raise DecodeError(f"tagged fields: a count of {count} does not fit")
    last = -1
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag <= last or size > end - pos:
            raise DecodeError(f"tagged field {tag} is out of order, or its size is wrong")
        last = tag
        pos += size
    return pos


def append_uvarint(out: bytearray, value: int) -> None:
    """Write `value`, 0 to 2^32-1, behind `out`."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def size_of_uvarint(value: int) -> int:
    """How many bytes `value` takes."""
    return max(1, (value.bit_length() + 6) // 7)
