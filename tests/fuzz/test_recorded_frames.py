"""Does any one byte of a recorded frame, changed or missing, do more than have it refused?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.core.errors import PeerError
from headrace.wire.codec import decode, encode
from headrace.wire.headers import parse_request_header, parse_response_header
from headrace.wire.versions import APIS, request_class, response_class
from tests.golden.wire.test_golden_frames import recorded

CHANGES = (0xFF, 0x80, 0x01)
LONG = 500
"""A frame of so many bytes gets one change of each; its parts are like those of shorter ones."""


def one_of_each(direction: str) -> Iterator[tuple[int, int, bytes]]:
    """Api key, version and the first recorded frame of each."""
    seen = set()
    for found, key, version, frame in recorded():
        if found == direction and (key, version) not in seen:
            seen.add((key, version))
            yield key, version, frame


def read(direction: str, key: int, version: int, frame: bytes) -> None:
    """Read a frame and write it again. Raises PeerError when there is nothing to read."""
    if direction == "request":
        header = parse_request_header(frame)
        if header.api_key in APIS:
            cls = request_class(header.api_key)
            encode(decode(cls, frame[header.body :], header.api_version), header.api_version)
        return
    start = parse_response_header(frame, api_key=key, api_version=version)[1]
    encode(decode(response_class(key), frame[start:], version), version)


@pytest.mark.parametrize("direction", ["request", "response"])
def test_every_truncation_of_a_recorded_frame_is_refused(direction: str) -> None:
    """input:B30: of one frame of each api and version that was recorded; what lacks its end is never another message."""
    for key, version, frame in one_of_each(direction):
        for size in range(len(frame)):
            with pytest.raises(PeerError):
                read(direction, key, version, frame[:size])


@pytest.mark.parametrize("direction", ["request", "response"])
def test_a_change_of_any_byte_of_a_recorded_frame_gives_a_message_or_a_refusal(direction: str) -> None:
    """input:B30, input:B29: changes of each byte: a message that can be written again, or a PeerError."""
    read_after_all = 0
    for key, version, frame in one_of_each(direction):
        for at in range(len(frame)):
            for change in CHANGES if len(frame) < LONG else CHANGES[:1]:
                spoilt = bytearray(frame)
                spoilt[at] ^= change
                try:
                    read(direction, key, version, bytes(spoilt))
                    read_after_all += 1
                except PeerError:
                    continue
    assert read_after_all > 1_000
