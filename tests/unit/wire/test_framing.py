"""Are frames found in any slicing of a stream, and bad lengths refused at once?"""

from __future__ import annotations

import random
import struct

import pytest

from headrace.core.errors import DecodeError
from headrace.wire.framing import SMALLEST_RESPONSE, FrameReader, framed

BODIES = [b"x" * 8, b"y" * 9, b"z" * 300, b"12345678"]


def test_any_slicing_gives_the_same_frames() -> None:
    """B3, B-W07: bytes that come one by one, all at once, or cut anywhere."""
    stream = b"".join(framed(body) for body in BODIES)
    for seed in range(60):
        rng = random.Random(seed)
        reader, found, pos = FrameReader(largest=300), [], 0
        while pos < len(stream):
            size = 1 if seed == 0 else len(stream) if seed == 1 else rng.randint(1, 40)
            found += reader.feed(stream[pos : pos + size])
            pos += size
        assert [bytes(frame) for frame in found] == BODIES
        assert reader.held == 0


def test_whole_frames_are_views() -> None:
    """A frame within what arrived is not copied."""
    data = framed(BODIES[2])
    frame = FrameReader(largest=300).feed(data)[0]
    assert frame.obj is data


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 7, 301, 2**31 - 1])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_forbidden_lengths_are_refused_before_anything_is_kept(length: int, cut: int) -> None:
    """B1: negative, 0, 1..7, above the limit, 2^31-1; the length's own bytes may come apart."""
    reader, data = FrameReader(largest=300), struct.pack(">i", length)
    reader.feed(data[:cut])
    with pytest.raises(DecodeError, match="frame of"):
        reader.feed(data[cut:])
    assert reader.held <= 4


def test_only_what_came_is_kept() -> None:
    """B1: a frame of 100 MB of which ten bytes came holds fourteen."""
    reader = FrameReader(largest=100 << 20)
    assert reader.feed(struct.pack(">i", 100 << 20) + b"0123456789") == []
    assert reader.held == 14


def test_answers_may_be_shorter_than_requests() -> None:
    """B29: a response of four bytes is a correlation id; three are refused."""
    reader = FrameReader(largest=100, smallest=SMALLEST_RESPONSE)
    assert reader.feed(framed(b"\0\0\0\1")) == [b"\0\0\0\1"]
    with pytest.raises(DecodeError):
        reader.feed(framed(b"\0\0\0"))
