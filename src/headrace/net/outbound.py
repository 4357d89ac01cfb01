"""How does this node ask other nodes, and how does each question end?

There is one link for each address and purpose, made when it is first needed and again after it was lost, so no question waits behind
those of another purpose (B-R28). A question ends once: with its answer, or with a `SendFailure`. Askers pace their own tries; a link
only keeps a floor between two connects, so that a refusal is always news of this moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from struct import Struct
from typing import cast

from headrace.client.connection import Connection, response_class
from headrace.client.settings import ClientSettings
from headrace.client.talk import Unsupported
from headrace.core.errors import DecodeError, EncodeError, PeerError
from headrace.core.peers import SendFailure
from headrace.net.dialling import connect
from headrace.wire.headers import framed_request
from headrace.wire.schema import Message

_LOG = logging.getLogger("headrace.net")
_LENGTH = Struct(">i").unpack_from
_SET_ID = Struct(">i").pack_into
_ID_AT = 8
_API_VERSIONS = 18
_RECONNECT_FLOOR_S = 0.02
MAX_UNSENT_QUESTIONS = 10_000
"""More than so many for one link are refused with DISCONNECTED: its peer takes none."""

Done = Callable[[Message | SendFailure], None]
Target = tuple[str, int, Hashable]
"""Host, port and purpose of a link."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Question:
    """A request on its way. `timer` ends it; it is gone once `done` was called."""

    request: Message
    done: Done
    timer: asyncio.TimerHandle | None = None


class OutboundLinks:
    """The connections from this node to others. Lives on one event loop; `close` ends every question with DISCONNECTED."""

    def __init__(self, settings: ClientSettings) -> None:
        """`settings` say the client id, the longest wait for a connect and the biggest answer."""
        self._settings = settings
        self._links: dict[Target, _Link] = {}
        self._passing: set[_Link] = set()
        self._is_closed = False

    def ask(self, target: Target, request: Message, *, timeout_ms: int, done: Done) -> None:
        """Send a request; `done` hears the answer or the failure, never before this call returned."""
        if self._is_closed:
            asyncio.get_running_loop().call_soon(done, SendFailure.DISCONNECTED)
            return
        link = self._links.get(target)
        if link is None:
            link = self._links[target] = _Link(target, self._settings)
        link.ask(request, timeout_ms, done)

    def ask_once(self, target: Target, request: Message, *, timeout_ms: int, done: Done) -> None:
        """The same on a connection of its own, which ends with the answer: the next one may reach another node."""
        loop = asyncio.get_running_loop()
        if self._is_closed:
            loop.call_soon(done, SendFailure.DISCONNECTED)
            return
        link = _Link(target, self._settings)
        self._passing.add(link)

        def ended(outcome: Message | SendFailure) -> None:
            self._passing.discard(link)
            loop.call_soon(link.drop, SendFailure.DISCONNECTED, "asked once")
            done(outcome)

        link.ask(request, timeout_ms, ended)

    def close(self) -> None:
        """Close every connection."""
        self._is_closed = True
        links, self._links = [*self._links.values(), *self._passing], {}
        for link in links:
            link.drop(SendFailure.DISCONNECTED, "the node stops")


class _Link(asyncio.Protocol):
    """One connection, or the want of one.

    IDLE -> CONNECTING (`ask`) -> OPENING (connected: ApiVersions is asked) -> READY (what waited is sent) -> IDLE (`drop`)
    """

    def __init__(self, target: Target, settings: ClientSettings) -> None:
        self._target = target
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._dialogue = Connection(settings)
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent: list[_Question] = []
        self._sent: dict[int, _Question] = {}
        self._read = bytearray()
        self._next_connect_s = 0.0

    # --- questions ---

    def ask(self, request: Message, timeout_ms: int, done: Done) -> None:
        question = _Question(request=request, done=done)
        if len(self._unsent) >= MAX_UNSENT_QUESTIONS:
            self._loop.call_soon(done, SendFailure.DISCONNECTED)
            return
        question.timer = self._loop.call_later(timeout_ms / 1000, self._timed_out, question)
        if self._transport is not None and self._dialogue.is_ready:
            self._send(question)
            return
        self._unsent.append(question)
        if self._transport is None and self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    def _send(self, question: _Question) -> None:
        """Write it in the highest version that both sides know, or end it when there is none or none can say it."""
        assert self._transport is not None, "sent on a connection"
        chosen = self._dialogue.choose(question.request)
        if isinstance(chosen, Unsupported):
            self._loop.call_soon(self._end, question, SendFailure.UNSUPPORTED_VERSION)
            return
        message, version = chosen
        try:
            frame = framed_request(message, version, correlation_id=0, client_id=self._settings.client_id)
        except EncodeError as error:
            _LOG.debug("%s version %d to %s: %s", type(message).__name__, version, self, error)
            self._loop.call_soon(self._end, question, SendFailure.UNSUPPORTED_VERSION)
            return
        schema = message.SCHEMA
        is_flexible = version in schema.flexible and schema.api_key != _API_VERSIONS
        correlation_id = self._dialogue.expect(response_class(type(message)), version, is_flexible=is_flexible)
        _SET_ID(frame, _ID_AT, correlation_id)
        self._sent[correlation_id] = question
        self._transport.write(frame)

    def _end(self, question: _Question, outcome: Message | SendFailure) -> None:
        timer, question.timer = question.timer, None
        if timer is not None:
            timer.cancel()
            question.done(outcome)

    def _timed_out(self, question: _Question) -> None:
        """Silence: the connection is worth nothing any more (B-R28)."""
        if question in self._unsent:
            self._unsent.remove(question)
        else:
            for correlation_id in [each for each, sent in self._sent.items() if sent is question]:
                del self._sent[correlation_id]
        self._end(question, SendFailure.TIMED_OUT)
        if self._transport is not None:
            self.drop(SendFailure.DISCONNECTED, "a request timed out")

    # --- the connection ---

    async def _connect(self) -> None:
        wait_s = self._next_connect_s - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._next_connect_s = self._loop.time() + _RECONNECT_FLOOR_S
        host, port, _ = self._target
        failure = await connect(host, port, lambda: self, timeout_s=self._settings.connect_timeout_ms / 1000)
        self._connecting = None
        if failure is not None:
            self.drop(failure, f"no connection: {failure.value}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: ask for the versions first."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's streams are none of asyncio's
        self._dialogue = Connection(self._settings)
        self._read.clear()
        self._transport.write(self._dialogue.opening())

    def data_received(self, data: bytes) -> None:
        """Cut frames out of what came; bytes that are no answer end the connection (B29)."""
        self._read += data
        try:
            while (frame := self._next_frame()) is not None:
                self._frame(frame)
        except (DecodeError, PeerError) as error:
            self.drop(SendFailure.DISCONNECTED, str(error))

    def _next_frame(self) -> bytearray | None:
        if len(self._read) < 4:
            return None
        (size,) = _LENGTH(self._read)
        if not 4 <= size <= self._settings.max_frame_bytes:
            raise DecodeError(f"a frame of {size} bytes is no answer of Kafka's protocol")
        if len(self._read) < 4 + size:
            return None
        frame = self._read[4 : 4 + size]
        del self._read[: 4 + size]
        return frame

    def _frame(self, frame: bytearray) -> None:
        found = self._dialogue.received(frame)
        if isinstance(found, tuple):
            question = self._sent.pop(found[0], None)
            if question is not None:
                self._end(question, found[1].response)
            return
        assert self._transport is not None, "frames come on a connection"
        if found:
            self._transport.write(found)
        if self._dialogue.is_ready:
            unsent, self._unsent = self._unsent, []
            for question in unsent:
                self._send(question)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer closed or reset it."""
        if self._transport is not None:
            self.drop(SendFailure.DISCONNECTED, str(exc or "the peer closed the connection"))

    def drop(self, failure: SendFailure, reason: str) -> None:
        """Close the connection, if there is one; every question on it ends with `failure`."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        going = [*self._sent.values(), *self._unsent]
        self._sent, self._unsent = {}, []
        if going or transport is not None:
            _LOG.debug("link to %s: %s", self, reason)
        for question in going:
            self._end(question, failure)

    def __str__(self) -> str:
        host, port, purpose = self._target
        return f"{host}:{port} ({getattr(purpose, 'value', purpose)})"


def link_settings(*, client_id: str, connect_timeout_ms: int, max_frame_bytes: int) -> ClientSettings:
    """What the links of a node are told: times in ms, sizes in bytes."""
    return ClientSettings(
        bootstrap=(), client_id=client_id, connect_timeout_ms=connect_timeout_ms, max_frame_bytes=max_frame_bytes
    )
