"""Does every message survive its round trip, and do any bytes decode or get refused, in every version?"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import DecodeError
from headrace.wire.codec import decode, encode
from headrace.wire.group_records import frame as group_frame
from headrace.wire.headers import parse_request_header, parse_response_header
from headrace.wire.metadata_records.frame import decode_record
from tests.support.messages import all_versions, sample

ALL = tuple(all_versions())


def test_every_message_of_every_version_survives_the_round_trip() -> None:
    """B-W01, B23: arbitrary content with the edges of every type; the bytes of what was read are the same bytes."""
    rng = random.Random(11)
    for cls, version in ALL:
        for _ in range(2):
            message = sample(cls, version, rng)
            data = encode(message, version)
            assert decode(cls, data, version) == message, (cls.__name__, version)
            assert decode(cls, memoryview(b"x" + data)[1:], version) == message, (cls.__name__, version)


def test_every_truncation_is_refused() -> None:
    """B4, B30: a message that lacks its end is never another message: the last byte always belongs to something."""
    rng = random.Random(12)
    for cls, version in ALL:
        data = encode(sample(cls, version, rng, depth_limit=1), version)
        for size in range(len(data)) if len(data) < 60 else rng.sample(range(len(data)), 60):
            try:
                decode(cls, data[:size], version)
            except DecodeError:
                continue
            raise AssertionError((cls.__name__, version, size))


def test_every_single_byte_change_decodes_or_is_refused() -> None:
    """B30: one changed byte of a good message; nothing but a message or a DecodeError comes out, and it encodes again."""
    rng = random.Random(13)
    for cls, version in ALL:
        good = bytearray(encode(sample(cls, version, rng, depth_limit=1), version))
        for _ in range(15):
            if not good:
                break
            at = rng.randrange(len(good))
            before, good[at] = good[at], rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            try:
                message = decode(cls, good, version)
            except DecodeError:
                pass
            else:
                assert decode(cls, encode(message, version), version) == message or "nan" in repr(message)
            good[at] = before


@given(data=st.binary(max_size=200), which=st.integers(0, len(ALL) - 1))
def test_any_bytes_decode_or_are_refused(data: bytes, which: int) -> None:
    """House rule: any bytes decode to a message or a PeerError."""
    cls, version = ALL[which]
    try:
        message = decode(cls, data, version, allow_trailing=True)
    except DecodeError:
        return
    encode(message, version)


@given(data=st.binary(max_size=100))
def test_any_bytes_as_headers_and_frames(data: bytes) -> None:
    """House rule: any bytes as a header, a metadata record, or a coordinator's key."""
    for read in (
        parse_request_header,
        lambda found: parse_response_header(found, api_key=12, api_version=4),
        decode_record,
        lambda found: decode_record(b"\x01" + found),
        group_frame.decode_key,
    ):
        try:
            read(data)
        except DecodeError:
            continue
