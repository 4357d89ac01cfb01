"""Requests of clients that a broker passed on (Envelope, KIP-590).

The inner request is decided as if the client had asked here itself, with the principal and the address that the broker vouches for. When
the decision fails with NOT_CONTROLLER the envelope says so, and the broker looks for the active controller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, EncodeError, PeerError
from headrace.node.answers import has_error
from headrace.node.controller_server import ControllerServer
from headrace.node.envelope import decode_host, decode_principal, enclosed_response
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import handler_of, request_class_of
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps, released
from headrace.rpc.reply import AnyReply, Deferred, InSteps, Reply
from headrace.rpc.splitting import answer_in_parts, has_many_things
from headrace.wire.codec import decode, decode_in_steps, encode_in_steps
from headrace.wire.headers import parse_request_header, response_header
from headrace.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headrace.wire.schema import fields_of

_ROWS = {row.key: row for row in CONTROLLER_APIS}


_LONG_BYTES = 16 << 10


def handle(request: EnvelopeRequest, context: RequestContext, server: ControllerServer) -> Reply | Deferred | InSteps:
    """The inner answer in an EnvelopeResponse, or the error that kept the inner request from being decided."""
    if len(request.request_data) > _LONG_BYTES:
        return InSteps(_in_steps(request, context, server))
    try:
        who, at = _sender(request, context)
        inner = _decoded(who, memoryview(request.request_data)[at:])
    except PeerError as error:
        return _failed(error.code)
    if has_many_things(who.api_key, inner):
        return InSteps(_in_steps(request, context, server), size=len(request.request_data))
    result = handler_of(_ROWS[who.api_key])(inner, who, server)
    if isinstance(result, Deferred):
        outer = Deferred(on_abandoned=result.abandon)
        result.when_done(lambda reply: outer.complete(_enclosed(reply, who)))
        return outer
    assert not isinstance(result, bytes | tuple | InSteps), (
        "no forwardable api is encoded by its handler, or answered in steps"
    )
    return _enclosed(result, who)


def _in_steps(request: EnvelopeRequest, context: RequestContext, server: ControllerServer) -> Steps[Reply]:
    """The same for an inner request that may name very much."""
    try:
        who, at = _sender(request, context)
        inner_class = request_class_of(_ROWS[who.api_key])
        inner = yield from decode_in_steps(inner_class, request.request_data[at:], who.api_version)
        reply = yield from answer_in_parts(who.api_key, inner, who, handler_of(_ROWS[who.api_key]), server)
    except DecodeError:
        return _failed(ErrorCode.INVALID_REQUEST)
    except PeerError as error:
        return _failed(error.code)
    if isinstance(reply, Deferred):
        there = yield reply
        assert there is not None, "a deferred gives its reply"
        reply = there
    assert isinstance(reply, Reply), "the controller answers with a message"
    if has_error(_beginning(reply.message), ErrorCode.NOT_CONTROLLER):
        return _failed(ErrorCode.NOT_CONTROLLER)
    out = bytearray(response_header(who.api_key, who.api_version, correlation_id=who.correlation_id))
    try:
        yield from encode_in_steps(reply.message, who.api_version, out)
    except EncodeError:
        return _failed(ErrorCode.UNKNOWN_SERVER_ERROR)
    yield from released(inner)
    yield from released(reply.message)
    return Reply(EnvelopeResponse(response_data=bytes(out)))


def _beginning(response: Any) -> Any:
    """The response with the first of its parts: a standby refuses all of them."""
    arrays = [spec.name for spec in fields_of(type(response)) if spec.is_array]
    return replace(response, **{name: (getattr(response, name) or ())[:1] for name in arrays})


def _decoded(who: RequestContext, body: memoryview) -> Any:
    """The inner request. Raises PeerError(INVALID_REQUEST)."""
    try:
        return decode(request_class_of(_ROWS[who.api_key]), body, who.api_version)
    except DecodeError as error:
        raise PeerError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _sender(request: EnvelopeRequest, context: RequestContext) -> tuple[RequestContext, int]:
    """Who asks the inner request, and where its body begins. Raises PeerError with the envelope's error."""
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
    except DecodeError as error:
        raise PeerError(ErrorCode.INVALID_REQUEST, str(error)) from None
    who = RequestContext(
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
        forwarded_by=_number_of(context.client_id),
    )
    return who, header.body


def _number_of(client_id: str | None) -> int:
    """The node id at the end of a broker's client id, ours or Kafka's; -1 where there is none."""
    digits = (client_id or "").rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1


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
