"""The headers of messages, read and written.

Requests carry header version 1, or 2 where the api's version is flexible; responses 0, or 1 where it is flexible. The
answer to ApiVersions always carries 0, so that a client of any age can read it (KIP-511). Source: B-W01.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.core.errors import DecodeError, EncodeError
from headrace.wire.api_facts import API_FACTS, ApiKey
from headrace.wire.codec import encode_into
from headrace.wire.schema import Message
from headrace.wire.varint import Buffer, skip_tags

_NEVER = 1 << 15
_FLEXIBLE_FROM: Final = {key: flexible if flexible >= 0 else _NEVER for key, _, _, _, _, flexible, _ in API_FACTS}
_API_VERSIONS: Final = ApiKey.API_VERSIONS.value
_MAX_CLIENT_ID_BYTES = 0x7FFF

_REQUEST = struct.Struct(">hhih")
_START = struct.Struct(">hhi")
_FRAMED_RESPONSE = struct.Struct(">ii")
_INT32 = struct.Struct(">i")

SMALLEST_REQUEST: Final = _START.size
"""Bytes: key, version and correlation id. A shorter frame is no request."""


class RequestStart(NamedTuple):
    """What every request starts with, whatever its header's version."""

    api_key: int
    api_version: int
    correlation_id: int


class ParsedHeader(NamedTuple):
    """A request's header. `body` is the position of the message behind it."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def request_header_version(api_key: int, api_version: int) -> int:
    """1, or 2 where the version is flexible. An api that we do not know counts as not flexible."""
    return 2 if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0, or 1 where the version is flexible; always 0 for ApiVersions (KIP-511)."""
    return 1 if api_key != _API_VERSIONS and api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER) else 0


def peek_request(frame: Buffer) -> RequestStart:
    """Key, version and correlation id of a frame of which nothing else is known. Raises DecodeError."""
    if len(frame) < SMALLEST_REQUEST:
        raise DecodeError(f"a request of {len(frame)} bytes is too short for a header")
    return RequestStart._make(_START.unpack_from(frame, 0))


def parse_request_header(frame: Buffer) -> ParsedHeader:
    """The header of a request. Raises DecodeError for bytes that are none.

    A null client id (length -1) is legal, and so is an empty one. Source: B7.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame, 0)
        pos = 10
        client_id: str | None = None
        if length >= 0:
            pos += length
            if pos > len(frame):
                raise DecodeError(f"client id: a length of {length} does not fit")
            client_id = str(frame[10:pos], "utf-8")
        elif length != -1:
            raise DecodeError(f"client id: a length of {length} does not fit")
        if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from None
    return ParsedHeader(api_key, api_version, correlation_id, client_id, pos)


def parse_response_header(frame: Buffer, *, api_key: int, api_version: int) -> tuple[int, int]:
    """Correlation id, and the position of the message, of a response to a known request. Raises DecodeError."""
    try:
        correlation_id: int = _INT32.unpack_from(frame, 0)[0]
        pos = 4
        if response_header_version(api_key, api_version):
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos)
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from None
    return correlation_id, pos


def request_header(api_key: int, api_version: int, *, correlation_id: int, client_id: str | None) -> bytes:
    """The bytes of a request's header. Raises EncodeError for a client id of more than 32,767 bytes."""
    name = b"" if client_id is None else client_id.encode()
    if len(name) > _MAX_CLIENT_ID_BYTES:
        raise EncodeError(f"a client id of {len(name)} bytes is too long")
    length = -1 if client_id is None else len(name)
    tags = b"\0" if request_header_version(api_key, api_version) == 2 else b""
    return _REQUEST.pack(api_key, api_version, correlation_id, length) + name + tags


def response_header(api_key: int, api_version: int, *, correlation_id: int) -> bytes:
    """The bytes of a response's header."""
    tags = b"\0" if response_header_version(api_key, api_version) else b""
    return _INT32.pack(correlation_id) + tags


def framed_request(message: Message, version: int, *, correlation_id: int, client_id: str | None) -> bytearray:
    """A whole request as it is sent: length, header, message. Raises EncodeError."""
    out = bytearray(4)
    out += request_header(message.SCHEMA.api_key, version, correlation_id=correlation_id, client_id=client_id)
    encode_into(message, version, out)
    _INT32.pack_into(out, 0, len(out) - 4)
    return out


def framed_response(message: Message, version: int, *, correlation_id: int) -> bytearray:
    """A whole response as it is sent: length, header, message. Raises EncodeError."""
    out = bytearray(8)
    api_key = message.SCHEMA.api_key
    if api_key != _API_VERSIONS and version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
        out.append(0)
    encode_into(message, version, out)
    _FRAMED_RESPONSE.pack_into(out, 0, len(out) - 4, correlation_id)
    return out
