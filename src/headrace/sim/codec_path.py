"""What is left of a message that really went over the wire: encoded at a version, cut into two pieces somewhere, and decoded again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.wire.codec import decode
from headrace.wire.framing import SMALLEST_RESPONSE, FrameReader
from headrace.wire.headers import (
    framed_request,
    framed_response,
    parse_request_header,
    parse_response_header,
)
from headrace.wire.versions import response_class

if TYPE_CHECKING:
    import random

    from headrace.wire.schema import Message

LARGEST: Final = 100 * 1024 * 1024
"""Bytes of a frame: `socket.request.max.bytes`."""


def request_over_wire(request: Message, version: int, *, correlation_id: int, chance: random.Random) -> Message:
    """The request as its server reads it. Raises EncodeError when `version` cannot say it."""
    data = bytes(framed_request(request, version, correlation_id=correlation_id & 0x7FFFFFFF, client_id="sim"))
    frame = _in_two_pieces(data, FrameReader(largest=LARGEST), chance)
    header = parse_request_header(frame)
    assert header.api_version == version, "the header says the version"
    return decode(type(request), frame[header.body :], version)


def response_over_wire(response: Message, version: int, *, correlation_id: int, chance: random.Random) -> Message:
    """The response as its caller reads it. Raises EncodeError when `version` cannot say it."""
    number = correlation_id & 0x7FFFFFFF
    data = bytes(framed_response(response, version, correlation_id=number))
    frame = _in_two_pieces(data, FrameReader(largest=LARGEST, smallest=SMALLEST_RESPONSE), chance)
    found, body = parse_response_header(frame, api_key=response.SCHEMA.api_key, api_version=version)
    assert found == number, "the answer is to this question"
    return decode(type(response), frame[body:], version)


def request_frame(request: Message, version: int, *, correlation_id: int) -> bytes:
    """What a client sends, without its length. Raises EncodeError when `version` cannot say it."""
    framed = framed_request(request, version, correlation_id=correlation_id & 0x7FFFFFFF, client_id="sim")
    return bytes(memoryview(framed)[4:])


def read_response(frame: memoryview, request: type[Message], version: int) -> Message:
    """A response as its client reads it, from a frame without its length."""
    api_key = request.SCHEMA.api_key
    _, body = parse_response_header(frame, api_key=api_key, api_version=version)
    return decode(response_class(api_key), frame[body:], version)


def _in_two_pieces(data: bytes, reader: FrameReader, chance: random.Random) -> memoryview:
    """The one frame in `data`, which comes in two pieces."""
    cut = chance.randrange(0, len(data) + 1)
    frames = [*reader.feed(data[:cut]), *reader.feed(data[cut:])]
    assert len(frames) == 1, "one frame was sent"
    return frames[0]
