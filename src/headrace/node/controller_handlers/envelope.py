"""What does a client want whose request a broker passed on? (Envelope, KIP-590)

The inner request is decided as if the client had asked here itself, with the principal and the address that the broker vouches for. When
the decision fails with NOT_CONTROLLER the envelope says so, and the broker looks for the active controller.
"""

from __future__ import annotations

from typing import Any

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, EncodeError, PeerError
from headrace.node.answers import has_error
from headrace.node.controller_side import ControllerSide
from headrace.node.envelope import decode_host, decode_principal, enclosed_response
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import handler_of, request_class_of
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, Reply
from headrace.wire.codec import decode
from headrace.wire.headers import parse_request_header
from headrace.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

_ROWS = {row.key: row for row in CONTROLLER_APIS}


def handle(request: EnvelopeRequest, context: RequestContext, side: ControllerSide) -> Reply | Deferred:
    """The inner answer in an EnvelopeResponse, or the error that kept the inner request from being decided."""
    try:
        inner, who = _opened(request, context)
    except PeerError as error:
        return _failed(error.code)
    result = handler_of(_ROWS[who.api_key])(inner, who, side)
    if isinstance(result, Deferred):
        outer = Deferred(on_abandoned=result.abandon)
        result.when_done(lambda reply: outer.complete(_enclosed(reply, who)))
        return outer
    assert not isinstance(result, bytes), "no forwardable api is encoded by its handler"
    return _enclosed(result, who)


def _opened(request: EnvelopeRequest, context: RequestContext) -> tuple[Any, RequestContext]:
    """The inner request and who asks it. Raises PeerError with the envelope's error."""
    try:
        header = parse_request_header(request.request_data)
    except DecodeError as error:
        raise PeerError(ErrorCode.INVALID_REQUEST, str(error)) from None
    row = _ROWS.get(header.api_key)
    if row is None or not row.api.is_forwarded:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"api key {header.api_key} is not forwarded")
    if not row.min_version <= header.api_version <= row.max_version:
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, f"version {header.api_version} of {row.name}")
    try:
        principal = decode_principal(request.request_principal)
    except DecodeError as error:
        raise PeerError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from None
    try:
        host = decode_host(request.client_host_address)
        message = decode(request_class_of(row), memoryview(request.request_data)[header.body :], header.api_version)
    except DecodeError as error:
        raise PeerError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return message, RequestContext(
        api_key=header.api_key,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        principal=principal,
        client_host=host,
        listener=context.listener,
        connection_id=context.connection_id,
        now_ms=context.now_ms,
        is_controller_listener=True,
        is_forwarded=True,
    )


def _enclosed(reply: AnyReply, who: RequestContext) -> Reply:
    assert isinstance(reply, Reply), "the controller answers with a message"
    if has_error(reply.message, ErrorCode.NOT_CONTROLLER):
        return _failed(ErrorCode.NOT_CONTROLLER)
    try:
        data = enclosed_response(reply.message, api_version=who.api_version, correlation_id=who.correlation_id)
    except EncodeError:
        return _failed(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Reply(EnvelopeResponse(response_data=data))


def _failed(error: ErrorCode) -> Reply:
    return Reply(EnvelopeResponse(response_data=None, error_code=error))
