"""Are varints of every length read alike, many at once and one by one?"""

from __future__ import annotations

import random

import numpy as np
import pytest

from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.varints import read_ints, read_longs


def _encoded(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


@pytest.mark.parametrize("bound", [1, 63, 64, 8_191, 8_192, 1 << 20, (1 << 31) - 1])
def test_ints_are_read_as_they_were_written(bound: int) -> None:
    """B9: one, two and more bytes, in any mixture, with nothing behind the last."""
    chance = random.Random(bound)
    values = [0, -1, bound, -bound - 1, *(chance.randrange(-bound - 1, bound + 1) for _ in range(500))]
    pieces = [_encoded(value) for value in values]
    ends = np.cumsum([len(piece) for piece in pieces])
    starts = np.concatenate([[0], ends[:-1]])
    buffer = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    for read in (read_ints, read_longs):
        found, after = read(buffer, starts)
        assert found.tolist() == values
        assert after.tolist() == ends.tolist()


@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_varint_that_is_cut_off_is_refused(last: int) -> None:
    """B9: the buffer ends inside the last one, whatever stands before it."""
    buffer = np.frombuffer(b"\x02\x80\x01" + b"\x80" * last, dtype=np.uint8)
    for read in (read_ints, read_longs):
        with pytest.raises(CorruptRecords):
            read(buffer, np.array([0, 1, 3]))
