"""The bytes that go out on one connection, and the request that each frame coming back answers."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Container, Generator
from dataclasses import dataclass
from struct import Struct
from typing import Any

from headrace.client.login import Dialogue, Login
from headrace.client.settings import ClientSettings
from headrace.client.talk import Answered, Call, Unsupported, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.wire import codec
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headrace.wire.source import carries_records
from headrace.wire.versions import ApiKey

API_VERSIONS_KEY = 18
SESSION_USED = 0.9
"""The part of a login's time after which a connection is replaced, before the node closes it."""
SOFTWARE_NAME = "headrace"
SOFTWARE_VERSION = "0.1.0"
_HEAD = Struct(">ihhih")  # frame length, api key, api version, correlation id, length of the client id
_I32 = Struct(">i")


@dataclass(slots=True)
class _Pending:
    """A request that was sent: what its answer must look like."""

    correlation_id: int
    response: type[Any]
    version: int
    is_flexible: bool


def serves_controllers(api_keys: Container[int]) -> bool | None:
    """Whether a listener with these APIs is a controller's (it votes), not a broker's (it tells Metadata); None: neither is certain."""
    votes, tells = ApiKey.VOTE in api_keys, ApiKey.METADATA in api_keys
    return None if votes == tells else votes


def response_class(request: type[Any]) -> type[Any]:
    """The response that answers a request: its namesake in the same module."""
    found: type[Any] = getattr(sys.modules[request.__module__], request.__name__.removesuffix("Request") + "Response")
    return found


class Connection:
    """The dialogue on one socket: versions first, then the login, then requests answered in their order.

    `opening` gives the first bytes; every frame (without its length) goes into `received`, and what comes back must be sent.
    NEGOTIATING -> (HANDSHAKE -> LOGIN ->) READY; any bytes that are no answer raise DecodeError, and the socket must be closed (B29).
    """

    __slots__ = (
        "_client_id", "_dialogue", "_login", "_next_id", "_opening", "_pending", "api_versions", "is_ready", "ranges",
        "session_ms",
    )  # fmt: skip

    def __init__(self, settings: ClientSettings) -> None:
        self._client_id = settings.client_id.encode()[:32767]
        self._login: Login | None = settings.login
        self._dialogue: Dialogue | None = None
        self._next_id = 0
        self._pending: deque[_Pending] = deque()
        self._opening = True
        self.is_ready = False
        self.session_ms = 0
        """How long the node lets this login last; 0 is for ever."""
        self.api_versions: ApiVersionsResponse | None = None
        self.ranges: dict[int, tuple[int, int]] = {}

    @property
    def pending(self) -> int:
        """How many answers are still to come."""
        return len(self._pending)

    @property
    def awaits_records(self) -> bool:
        """Whether the next response may hold record batches, which are views onto its frame."""
        return bool(self._pending) and carries_records(self._pending[0].response)

    def opening(self) -> bytes:
        """The first frame of the dialogue: which versions does the node speak?"""
        return self._frame(self._api_versions_request(), ApiVersionsRequest.SCHEMA.versions.last)

    def choose(self, request: Any) -> tuple[Any, int] | Unsupported:
        """The message to send for a message or `Call`, and its version: the highest that both sides speak within its bounds."""
        call = request if isinstance(request, Call) else bounded(request)
        schema = call.api.SCHEMA
        name = call.api.__name__.removesuffix("Request")
        theirs = self.ranges.get(schema.api_key)
        if theirs is None:
            return Unsupported(
                api_key=schema.api_key,
                reason=f"The node does not support {name}",
                is_controller=serves_controllers(self.ranges) is True,
            )
        first, last = max(schema.versions.first, call.at_least), min(schema.versions.last, call.at_most)
        version = min(last, theirs[1])
        if version < max(first, theirs[0]):
            return Unsupported(
                api_key=schema.api_key,
                reason=f"The node supports {name} in versions {theirs[0]} to {theirs[1]}, and {first} to {last} is needed",
            )
        return (call.build(version), version)

    def request(self, request: Any, version: int, *, is_answered: bool = True) -> tuple[int, bytes]:
        """Correlation id and frame of a request. `is_answered=False`: none will come (Produce with acks 0)."""
        frame = self._frame(request, version, is_answered=is_answered)
        return self._next_id - 1, frame

    def expect(self, response: type[Any], version: int, *, is_flexible: bool) -> int:
        """Correlation id for a frame that the caller writes itself (hot paths)."""
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        self._pending.append(_Pending(correlation_id, response, version, is_flexible))
        return correlation_id

    def received(self, frame: bytearray | memoryview) -> tuple[int, Answered] | bytes:
        """What a frame is: the answer to one request, or, while the connection opens, bytes to send next (perhaps none).

        Raises DecodeError for bytes that are not the awaited answer, PeerError for a login that was refused.
        """
        pending, body = self._match(frame)
        if self._opening:
            return self._open(pending, body)
        answer = codec.decode(pending.response, body, pending.version)
        return pending.correlation_id, Answered(response=answer, version=pending.version)

    def received_in_steps(self, frame: bytearray | memoryview) -> Generator[None, None, tuple[int, Answered]]:
        """As `received`, once the dialogue is ready, with a yield after every few parts of the response. Raises DecodeError."""
        pending, body = self._match(frame)
        answer = yield from codec.decode_in_steps(pending.response, body, pending.version)
        return pending.correlation_id, Answered(response=answer, version=pending.version)

    def _match(self, frame: bytearray | memoryview) -> tuple[_Pending, memoryview]:
        if not self._pending:
            raise DecodeError("a frame came that answers nothing")
        if len(frame) < 4:
            raise DecodeError(f"a frame of {len(frame)} bytes has no room for a correlation id")
        pending = self._pending.popleft()
        (correlation_id,) = _I32.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            raise DecodeError(f"an answer has correlation id {correlation_id}, {pending.correlation_id} was due")
        start = 4
        if pending.is_flexible:
            start = _skip_tags(frame, 4)
        return pending, memoryview(frame)[start:]

    def _open(self, pending: _Pending, body: memoryview) -> bytes:
        if pending.response is ApiVersionsResponse:
            return self._versions_arrived(pending, body)
        answer = codec.decode(pending.response, body, pending.version)
        if isinstance(answer, SaslHandshakeResponse):
            return self._handshake_arrived(answer)
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            raise PeerError(ErrorCode.SASL_AUTHENTICATION_FAILED, answer.error_message or "Authentication failed")
        assert self._dialogue is not None
        said = self._dialogue.answer(bytes(answer.auth_bytes))
        if said is not None:
            return self._chosen(SaslAuthenticateRequest(auth_bytes=said))
        self.session_ms = max(answer.session_lifetime_ms, 0)
        return self._opened()

    def _versions_arrived(self, pending: _Pending, body: memoryview) -> bytes:
        refused = len(body) >= 2 and body[0] == 0 and body[1] == ErrorCode.UNSUPPORTED_VERSION
        version = 0 if refused else pending.version
        answer = codec.decode(ApiVersionsResponse, body, version)
        if refused:
            theirs = [each.max_version for each in answer.api_keys if each.api_key == API_VERSIONS_KEY]
            if pending.version == 0:
                raise DecodeError("the node refuses every version of ApiVersions")
            return self._frame(
                self._api_versions_request(), max(0, min([*theirs, pending.version - 1])) if theirs else 0
            )
        if answer.error_code:
            raise PeerError(ErrorCode.known(answer.error_code), "the node does not tell its versions")
        self.api_versions = answer
        self.ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        if self._login is None:
            return self._opened()
        return self._chosen(bounded(SaslHandshakeRequest(mechanism=self._login.mechanism), at_least=1))

    def _chosen(self, call: Any) -> bytes:
        chosen = self.choose(call)
        if isinstance(chosen, Unsupported):
            raise PeerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, chosen.reason)
        return self._frame(*chosen)

    def _handshake_arrived(self, answer: SaslHandshakeResponse) -> bytes:
        assert self._login is not None
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise PeerError(
                ErrorCode.known(answer.error_code),
                f"the node takes these SASL mechanisms: {offered}; {self._login.mechanism} is not one",
            )
        self._dialogue = self._login.dialogue()
        return self._chosen(SaslAuthenticateRequest(auth_bytes=self._dialogue.first()))

    def _opened(self) -> bytes:
        self._opening = False
        self.is_ready = True
        return b""

    def _api_versions_request(self) -> ApiVersionsRequest:
        return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)

    def _frame(self, request: Any, version: int, *, is_answered: bool = True) -> bytes:
        schema = type(request).SCHEMA
        is_flexible = version in schema.flexible
        if is_answered:
            correlation_id = self.expect(
                response_class(type(request)), version, is_flexible=is_flexible and schema.api_key != API_VERSIONS_KEY
            )
        else:
            correlation_id = self._next_id
            self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        body = codec.encode(request, version)
        tags = b"\0" if is_flexible else b""
        length = 10 + len(self._client_id) + len(tags) + len(body)
        head = _HEAD.pack(length, schema.api_key, version, correlation_id, len(self._client_id))
        return b"".join((head, self._client_id, tags, body))


def _skip_tags(frame: bytearray | memoryview, position: int) -> int:
    """Position after the tagged fields of a response header. Raises DecodeError."""
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
        if position > len(frame):
            raise DecodeError("a tagged field of a response header ends past the frame")
    return position


def _varint(frame: bytearray | memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(frame):
            raise DecodeError("a response header is cut off")
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise DecodeError("a number in a response header is too long")
