"""Are headers read and written as each api and version has them?"""

from __future__ import annotations

import struct

import pytest

from headrace.core.errors import DecodeError, EncodeError
from headrace.wire import headers
from headrace.wire.codec import decode_from, encode
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from headrace.wire.protocols.request_header import RequestHeader
from headrace.wire.schema import Message

REQUESTS: list[tuple[Message, int, int]] = [
    (HeartbeatRequest(group_id="g"), 3, 1),
    (HeartbeatRequest(group_id="g"), 4, 2),
    (SaslHandshakeRequest(mechanism="PLAIN"), 1, 1),
    (ApiVersionsRequest(client_software_name="x"), 3, 2),
]


@pytest.mark.parametrize(("message", "version", "header_version"), REQUESTS)
@pytest.mark.parametrize("client_id", [None, "", "me", "ünï\n", "x" * 32_767])
def test_a_request_is_framed_and_parsed(
    message: Message, version: int, header_version: int, client_id: str | None
) -> None:
    """B-W01, B7: header 1 or 2; a null, an empty and the longest client id are fine."""
    framed = headers.framed_request(message, version, correlation_id=-7, client_id=client_id)
    frame = bytes(framed[4:])
    assert struct.unpack(">i", framed[:4])[0] == len(frame)
    parsed = headers.parse_request_header(frame)
    assert parsed[:4] == (message.SCHEMA.api_key, version, -7, client_id)
    assert decode_from(type(message), frame, parsed.body, version) == (message, len(frame))
    # the same bytes as the header's own definition
    plain = RequestHeader(
        request_api_key=message.SCHEMA.api_key, request_api_version=version, correlation_id=-7, client_id=client_id
    )
    assert frame[: parsed.body] == encode(plain, header_version)
    assert headers.peek_request(frame) == (message.SCHEMA.api_key, version, -7)


def test_the_answer_to_api_versions_has_header_0() -> None:
    """B-W01, KIP-511: in all its versions, so that a client of any age reads it; others get 1 where they are flexible."""
    for version in range(5):
        framed = headers.framed_response(ApiVersionsResponse(), version, correlation_id=3)
        assert headers.parse_response_header(framed[4:], api_key=18, api_version=version) == (3, 4)
        assert framed[8:] == encode(ApiVersionsResponse(), version)
    for version, size in ((3, 4), (4, 5)):
        framed = headers.framed_response(HeartbeatResponse(), version, correlation_id=3)
        assert headers.parse_response_header(framed[4:], api_key=12, api_version=version) == (3, size)
        assert headers.response_header(12, version, correlation_id=3) == framed[4 : 4 + size]


def test_unknown_tags_in_a_header_are_skipped() -> None:
    """B-W03, B8: a header with tagged fields of a later Kafka."""
    plain = headers.request_header(12, 4, correlation_id=1, client_id="me")
    tagged = plain[:-1] + b"\x02\x00\x03abc\x05\x00"
    assert headers.parse_request_header(tagged + b"body").body == len(tagged)
    assert headers.parse_response_header(b"\0\0\0\1\x01\x09\x02ab", api_key=12, api_version=4) == (1, 9)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(struct.pack(">hhi", 12, 4, 1), id="no client id"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, 5) + b"me", id="client id past the end"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, -2), id="client id of -2"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, 2) + b"\xff\xff\0", id="client id not UTF-8"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, -1), id="no tags"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, -1) + b"\x02\x01\x00\x01\x00", id="tag repeated"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, -1) + b"\xff\xff\xff\xff\x0f", id="2^32-1 tags"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, -1) + b"\x01\x01\x09abc", id="tag past the end"),
    ],
)
def test_bad_request_headers_are_refused(frame: bytes) -> None:
    """B7, B8: cut, negative, not UTF-8, malformed tags."""
    with pytest.raises(DecodeError):
        headers.parse_request_header(frame)


def test_short_frames_are_refused() -> None:
    """B1: below eight bytes there is no request; below four no response."""
    for size in range(8):
        with pytest.raises(DecodeError):
            headers.peek_request(bytes(size))
    with pytest.raises(DecodeError):
        headers.parse_response_header(b"\0\0\0", api_key=12, api_version=3)
    with pytest.raises(DecodeError):
        headers.parse_response_header(b"\0\0\0\0", api_key=12, api_version=4)


def test_unknown_apis_count_as_not_flexible() -> None:
    """B5: so the header of a request that we do not know can still be read, and says who asked."""
    assert headers.parse_request_header(struct.pack(">hhih", 9999, 77, 5, 1) + b"x") == (9999, 77, 5, "x", 11)
    assert headers.response_header_version(9999, 3) == 0


def test_a_client_id_that_is_too_long_is_not_written() -> None:
    """B7: 32,767 bytes are the limit."""
    with pytest.raises(EncodeError):
        headers.request_header(12, 4, correlation_id=1, client_id="x" * 32_768)
