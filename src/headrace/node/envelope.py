"""A client's request inside an Envelope, from a broker to the active controller (KIP-590, B-C28).

The inner request is a whole request without its length: header and body, in the version the client used. The inner response is a whole
response in that version.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from headrace.core.errors import DecodeError
from headrace.rpc.context import RequestContext
from headrace.wire.codec import decode, encode, encode_into
from headrace.wire.headers import parse_response_header, request_header, response_header
from headrace.wire.messages.envelope import EnvelopeRequest
from headrace.wire.protocols.default_principal_data import DefaultPrincipalData
from headrace.wire.schema import Message

_PRINCIPAL_VERSION = 0


def enclose(request: Message, context: RequestContext) -> EnvelopeRequest:
    """The Envelope for a client's request, with who asks and from where."""
    header = request_header(
        context.api_key, context.api_version, correlation_id=context.correlation_id, client_id=context.client_id
    )
    return EnvelopeRequest(
        request_data=header + encode(request, context.api_version),
        request_principal=encode_principal(context.principal),
        client_host_address=encode_host(context.client_host),
    )


def opened_response(data: bytes, response: type[Any], *, api_key: int, api_version: int) -> Message:
    """The inner response. Raises DecodeError."""
    _, position = parse_response_header(data, api_key=api_key, api_version=api_version)
    message: Message = decode(response, memoryview(data)[position:], api_version)
    return message


def enclosed_response(response: Message, *, api_version: int, correlation_id: int) -> bytes:
    """The bytes of `response_data`."""
    out = bytearray(response_header(response.SCHEMA.api_key, api_version, correlation_id=correlation_id))
    encode_into(response, api_version, out)
    return bytes(out)


def encode_principal(principal: str) -> bytes:
    """`Type:Name` as Kafka's default principal builder writes it: the version in two bytes, then DefaultPrincipalData."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name)
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + encode(data, _PRINCIPAL_VERSION)


def decode_principal(data: bytes | None) -> str:
    """The principal as `Type:Name`. Raises DecodeError: not written by Kafka's default principal builder."""
    if data is None or len(data) < 2:
        raise DecodeError("an Envelope names no principal")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != _PRINCIPAL_VERSION:
        raise DecodeError(f"an Envelope's principal is of version {version}")
    found = decode(DefaultPrincipalData, memoryview(data)[2:], version)
    return f"{found.type}:{found.name}"


def encode_host(host: str) -> bytes:
    """The address in 4 or 16 bytes; 0.0.0.0 for text that is no address, such as a Unix socket's."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)


def decode_host(data: bytes) -> str:
    """The address as text. Raises DecodeError: neither 4 nor 16 bytes."""
    try:
        return str(ip_address(data))
    except ValueError:
        raise DecodeError(f"an Envelope's client address has {len(data)} bytes") from None
