"""Are unsigned varints bounded?"""

from __future__ import annotations

import pytest

from headrace.core.errors import DecodeError
from headrace.wire.varint import append_uvarint, read_uvarint, size_of_uvarint

NUMBERS = (0, 1, 127, 128, 300, 16_383, 16_384, (1 << 28) - 1, 1 << 28, (1 << 32) - 1)


@pytest.mark.parametrize("number", NUMBERS)
def test_there_and_back(number: int) -> None:
    """KIP-482: seven bits a byte, lowest first."""
    out = bytearray(b"x")
    append_uvarint(out, number)
    assert read_uvarint(out, 1) == (number, len(out))
    assert size_of_uvarint(number) == len(out) - 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff\xff\x01", id="six bytes"),
        pytest.param(b"\x80" * 9 + b"\x01", id="ten bytes"),
        pytest.param(b"\xff\xff\xff\xff\x10", id="33 bits"),
        pytest.param(b"\x80\x00", id="padded zero"),
        pytest.param(b"\x81\x80\x80\x80\x00", id="padded one"),
    ],
)
def test_longer_larger_and_padded_ones_are_refused(data: bytes) -> None:
    """B9: 6 to 10 bytes, over 32 bits, padded with 0x80."""
    with pytest.raises(DecodeError, match="varint"):
        read_uvarint(data, 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_cut_one_ends_with_the_bytes(data: bytes) -> None:
    """B9: the end of the bytes is an IndexError, which every decoder turns into a DecodeError."""
    with pytest.raises(IndexError):
        read_uvarint(data, 0)
