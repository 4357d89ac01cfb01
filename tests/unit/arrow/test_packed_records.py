"""Do batches that are packed to nearly nothing take little memory and time of who reads them? A broker need not open them."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.frames import FrameLimits
from headrace.arrow.headers import MOST_HEADERS
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records.compression import Codec, compress
from headrace.records.record import NewRecord, build_batch
from tests.support.arrow_rows import arrow_batches, arrow_rows, plain_rows

HEADER_BYTES = 61
FEW = FrameLimits(max_rows=10)


def numbered(count: int, codec: int = 0) -> bytearray:
    return build_batch([NewRecord(key=b"%03d" % each, value=b"v" * (each % 7)) for each in range(count)], codec=codec)


def sealed(records: bytearray) -> bytes:
    """With its CRC."""
    struct.pack_into(">I", records, 17, crc32c(memoryview(records)[21:]))
    return bytes(records)


def with_headers(count: int) -> bytes:
    """One record with so many empty headers, packed."""
    body = b"\0\0\0\1\1" + varint(count) + b"\0\1" * count
    packed = compress(Codec.ZSTD, varint(len(body)) + body)
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(packed), 0, 2, 0, Codec.ZSTD, 0, 0, 0, -1, -1, -1, 1)
    return sealed(bytearray(head + packed))


def varint(value: int) -> bytes:
    raw, found = value << 1, bytearray()
    while raw > 0x7F:
        found.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*found, raw])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_of_very_many_records_is_read_in_parts(codec: int) -> None:
    """A record of nothing takes 7 bytes, packed to nearly none, and 150 in columns on the way: not all of them at once."""
    records = bytes(numbered(95, codec) + build_batch([NewRecord(key=None, value=b"x")], codec=codec))
    second = len(numbered(95, codec))
    records = records[:second] + struct.pack(">q", 95) + records[second + 8 :]
    found = arrow_batches(records, limits=FEW)
    assert [each.num_rows for each in found] == [10] * 9 + [5, 1]
    assert arrow_rows(records, limits=FEW) == plain_rows(records)
    assert [each.num_rows for each in arrow_batches(records)] == [96]


def test_what_is_wrong_at_the_border_of_two_parts_is_refused() -> None:
    """B49: an offset that comes again, and a record that reaches behind the batch."""
    good = build_batch([NewRecord(key=None, value=b"x") for _ in range(60)])
    size = (len(good) - HEADER_BYTES) // 60
    tenth = HEADER_BYTES + 10 * size
    assert len(arrow_rows(bytes(good), limits=FEW)) == 60
    for position, value in ((tenth + 3, 2 * 9), (tenth, 0x7E), (tenth - size, 0x7E)):
        bad = bytearray(good)
        bad[position] = value
        with pytest.raises(CorruptRecords):
            arrow_rows(sealed(bad), limits=FEW)


def test_records_of_many_headers_are_read_beside_others() -> None:
    """Few records of many headers are read one by one, and say the same."""
    headers = tuple((f"name-{each}" * (each % 40), None if each % 3 else b"v" * (each % 100)) for each in range(300))
    records = [NewRecord(key=None, value=b"x", headers=headers[: each * each]) for each in range(18)]
    found = bytes(build_batch(records))
    assert arrow_rows(found) == plain_rows(found)


def test_more_headers_than_memory_is_for_are_refused() -> None:
    """A record of a hundred bytes may hold 100,000 headers, and one of a thousand ten million."""
    assert len(arrow_rows(with_headers(100_000))[0][4]) == 100_000
    with pytest.raises(PeerError) as caught:
        arrow_rows(with_headers(MOST_HEADERS + 1))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("spoilt", [b"\1", b"\x7e", b"\x80\x80\x80\x80\x80", b"\xfe\xff\xff\xff\x1f", b"\xff\xff"])
@pytest.mark.parametrize("place", ["within", "last"])
def test_b29_headers_that_reach_out_of_their_record_are_refused(spoilt: bytes, place: str) -> None:
    """A length below nothing, too great, too long, cut off."""
    good = bytearray(build_batch([NewRecord(key=None, value=b"x", headers=(("k", b"v"),) * 100)]))
    at = (
        HEADER_BYTES + (good[HEADER_BYTES:].index(b"\2k\2v") + 50 * 4)
        if place == "within"
        else len(good) - 1 - len(spoilt)
    )
    good[at : at + len(spoilt)] = spoilt
    with pytest.raises(CorruptRecords):
        arrow_rows(sealed(good))
