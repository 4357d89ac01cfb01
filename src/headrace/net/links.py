"""Links to other nodes: requests that this node sends, and how each ends.

There is one link for each address and purpose, made when it is first needed and again after it was lost, so no request waits behind
those of another purpose (B-R28). A request ends once: with its response, or with a `SendFailure`. Senders pace their own tries; a link
only keeps a floor between two connects, so that a refusal is always news of this moment.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from functools import partial
from struct import Struct

from headrace.client.connection import Connection, response_class
from headrace.client.settings import ClientSettings
from headrace.client.talk import Answered, Unsupported
from headrace.core.errors import DecodeError, EncodeError, PeerError
from headrace.core.holds import Hold
from headrace.core.peers import SendFailure
from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.connecting import connect
from headrace.net.connection_core import ConnectionCore
from headrace.net.file_slices import Data
from headrace.net.limits import ConnectionLimits
from headrace.net.tls import TlsStage
from headrace.net.turn_shares import TurnShares
from headrace.wire.codec import LongMessage, in_few_steps
from headrace.wire.framing import SMALLEST_RESPONSE
from headrace.wire.headers import framed_request
from headrace.wire.schema import Message

_LOG = logging.getLogger("headrace.net")
_SET_ID = Struct(">i").pack_into
_ID_AT = 8
_API_VERSIONS = 18
_RECONNECT_FLOOR_S = 0.02
_BUFFER_BYTES = 1 << 20
"""Of the shared receive buffer: replication and snapshots come in pieces of up to a megabyte."""
_COPIED_UP_TO_BYTES = 16 << 10
"""Records of a response are kept beyond its handling: few are copied, many keep the buffer that they came in. Larger ones are read in steps."""
MAX_UNSENT_REQUESTS = 10_000
"""More than so many for one link are refused with DISCONNECTED: its peer takes none."""

Done = Callable[[Message | SendFailure], None]
Target = tuple[str, int, Hashable]
"""Host, port and purpose of a link."""


@dataclass(slots=True, kw_only=True, eq=False)
class _PendingRequest:
    """A request on its way. `timer` ends it; it is gone once `done` was called."""

    request: Message
    done: Done
    timer: asyncio.TimerHandle | None = None


class OutboundLinks:
    """The connections from this node to others. Lives on one event loop; `close` ends every request with DISCONNECTED."""

    def __init__(self, settings: ClientSettings, *, tls: ssl.SSLContext | None = None) -> None:
        """`settings` say the client id, the longest wait for a connect and the largest response; with `tls` every link is secured by it."""
        self._settings = settings
        self._tls = tls
        self._shared: _LinkShared | None = None
        self._links: dict[Target, _Link] = {}
        self._passing: set[_Link] = set()
        self._is_closed = False

    def send(self, target: Target, request: Message, *, timeout_ms: int, done: Done) -> None:
        """Send a request; `done` hears the response or the failure, never before this call returned."""
        if self._is_closed:
            asyncio.get_running_loop().call_soon(done, SendFailure.DISCONNECTED)
            return
        link = self._links.get(target)
        if link is None:
            link = self._links[target] = self._link(target)
        link.send(request, timeout_ms, done)

    def send_once(self, target: Target, request: Message, *, timeout_ms: int, done: Done) -> None:
        """The same on a connection of its own, which ends with the response: the next one may reach another node."""
        loop = asyncio.get_running_loop()
        if self._is_closed:
            loop.call_soon(done, SendFailure.DISCONNECTED)
            return
        link = self._link(target)
        self._passing.add(link)

        def ended(outcome: Message | SendFailure) -> None:
            self._passing.discard(link)
            loop.call_soon(link.drop, SendFailure.DISCONNECTED, "sent once")
            done(outcome)

        link.send(request, timeout_ms, ended)

    def _link(self, target: Target) -> _Link:
        if self._shared is None:
            self._shared = _LinkShared(self._settings, self._tls)
        return _Link(target, self._shared)

    def close(self) -> None:
        """Close every connection."""
        self._is_closed = True
        links, self._links = [*self._links.values(), *self._passing], {}
        for link in links:
            link.drop(SendFailure.DISCONNECTED, "the node stops")


class _LinkShared:
    """What the links of a node have in common; `headrace.net.connection_shared.ConnectionShared`."""

    def __init__(self, settings: ClientSettings, tls: ssl.SSLContext | None) -> None:
        self.limits = ConnectionLimits(min_frame_bytes=SMALLEST_RESPONSE, max_frame_bytes=settings.max_frame_bytes)
        self.pool = BufferPool(_BUFFER_BYTES)
        self.shares = TurnShares()
        self.memory = RequestMemory()
        self.settings = settings
        self.tls = tls
        self.loop = asyncio.get_running_loop()
        self.turn_time = 0.0

    def now(self) -> float:
        """Seconds on the loop's clock."""
        return self.loop.time()

    def soon(self, callback: Callable[[], None]) -> None:
        """Let others have their turn first."""
        self.loop.call_soon(callback)

    def served(self) -> None:
        """Nobody counts."""


class _LinkConnection(ConnectionCore):
    """One connection of a link: made, not accepted. Gives responses to the link, which reads them in place."""

    def __init__(self, link: _Link, shared: _LinkShared, host: str) -> None:
        context = shared.tls
        super().__init__(
            shared,
            tls=None
            if context is None
            else lambda core: TlsStage(context, core, is_server=False, server_hostname=host),
        )
        self._link = link

    def opened(self) -> None:
        self.frame = self._frame
        self._link.connected(self)

    def _frame(self, view: memoryview) -> bool:
        self._link.frame(view, self)
        return False

    def refuse(self, reason: str) -> None:
        self._link.drop(SendFailure.DISCONNECTED, reason)
        self.close_at_once()

    def failed(self, fault: Exception) -> None:
        self.close_at_once()
        self._link.drop(SendFailure.DISCONNECTED, "an error inside the node")
        raise fault

    def lost(self, exc: Exception | None) -> None:
        self._link.lost(self, exc)

    def write(self, frame: Data) -> None:
        """Send a request."""
        self.pieces.append(frame)
        self.flush()


class _Link:
    """One connection, or the want of one.

    IDLE -> CONNECTING (`send`) -> OPENING (connected: the versions are asked for) -> READY (what waited is sent) -> IDLE (`drop`)
    """

    def __init__(self, target: Target, shared: _LinkShared) -> None:
        self._target = target
        self._shared = shared
        self._settings = shared.settings
        self._loop = shared.loop
        self._dialogue = Connection(shared.settings)
        self._core: _LinkConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent: list[_PendingRequest] = []
        self._sent: dict[int, _PendingRequest] = {}
        self._next_connect_s = 0.0

    # --- requests ---

    def send(self, request: Message, timeout_ms: int, done: Done) -> None:
        pending = _PendingRequest(request=request, done=done)
        if len(self._unsent) >= MAX_UNSENT_REQUESTS:
            self._loop.call_soon(done, SendFailure.DISCONNECTED)
            return
        pending.timer = self._loop.call_later(timeout_ms / 1000, self._timed_out, pending)
        if self._core is not None and self._dialogue.is_ready:
            self._write(pending)
            return
        self._unsent.append(pending)
        if self._core is None and self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    def _write(self, pending: _PendingRequest) -> None:
        """Write it in the highest version that both sides know, or end it when there is none or none can say it."""
        assert self._core is not None, "sent on a connection"
        chosen = self._dialogue.choose(pending.request)
        if isinstance(chosen, Unsupported):
            self._loop.call_soon(self._end, pending, SendFailure.UNSUPPORTED_VERSION)
            return
        message, version = chosen
        try:
            frame = framed_request(message, version, correlation_id=0, client_id=self._settings.client_id)
        except EncodeError as error:
            _LOG.debug("%s version %d to %s: %s", type(message).__name__, version, self, error)
            self._loop.call_soon(self._end, pending, SendFailure.UNSUPPORTED_VERSION)
            return
        schema = message.SCHEMA
        is_flexible = version in schema.flexible and schema.api_key != _API_VERSIONS
        correlation_id = self._dialogue.expect(response_class(type(message)), version, is_flexible=is_flexible)
        _SET_ID(frame, _ID_AT, correlation_id)
        self._sent[correlation_id] = pending
        self._core.write(frame)

    def _end(self, pending: _PendingRequest, outcome: Message | SendFailure) -> None:
        timer, pending.timer = pending.timer, None
        if timer is not None:
            timer.cancel()
            pending.done(outcome)

    def _timed_out(self, pending: _PendingRequest) -> None:
        """Silence: the connection is worth nothing any more (B-R28)."""
        if pending in self._unsent:
            self._unsent.remove(pending)
        else:
            for correlation_id in [each for each, sent in self._sent.items() if sent is pending]:
                del self._sent[correlation_id]
        self._end(pending, SendFailure.TIMED_OUT)
        if self._core is not None:
            self.drop(SendFailure.DISCONNECTED, "a request timed out")

    # --- the connection ---

    async def _connect(self) -> None:
        wait_s = self._next_connect_s - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._next_connect_s = self._loop.time() + _RECONNECT_FLOOR_S
        host, port, _ = self._target

        def protocol() -> asyncio.BaseProtocol:
            made = _LinkConnection(self, self._shared, host)
            return made.tls or made

        failure = await connect(host, port, protocol, timeout_s=self._settings.connect_timeout_ms / 1000)
        self._connecting = None
        if failure is not None:
            self.drop(failure, f"no connection: {failure.value}")

    def connected(self, core: _LinkConnection) -> None:
        """Connected: ask for the versions first."""
        self._core = core
        self._dialogue = Connection(self._settings)
        core.write(self._dialogue.opening())

    def frame(self, view: memoryview, core: _LinkConnection) -> None:
        """A response. Bytes that are none end the connection (B29). Raises DecodeError."""
        if core is not self._core:
            return
        if len(view) > _COPIED_UP_TO_BYTES:
            self._long_frame(view, core)
            return
        if self._dialogue.awaits_records:
            view = memoryview(bytearray(view))
        try:
            found = self._dialogue.received(view)
        except PeerError as error:
            raise DecodeError(str(error)) from None
        if isinstance(found, tuple):
            self._answered(*found)
            return
        if found:
            core.write(found)
        if self._dialogue.is_ready:
            unsent, self._unsent = self._unsent, []
            for pending in unsent:
                self._write(pending)

    def _answered(self, correlation_id: int, found: Answered) -> None:
        pending = self._sent.pop(correlation_id, None)
        if pending is not None:
            self._end(pending, found.response)

    def _long_frame(self, view: memoryview, core: _LinkConnection) -> None:
        """A response that may speak of very much: read a little of it in each turn. Raises DecodeError."""
        if not self._dialogue.is_ready:
            raise DecodeError(f"{len(view)} bytes are no list of versions")
        core.keep_frame()
        steps = self._dialogue.received_in_steps(view)
        try:
            found = in_few_steps(steps)
        except LongMessage:
            core.hold(Hold.REPLY)
            self._shared.soon(partial(self._read_on, steps, core))
        else:
            self._answered(*found)

    def _read_on(self, steps: Generator[None, None, tuple[int, Answered]], core: _LinkConnection) -> None:
        if core is not self._core:
            return  # lost, or given up
        try:
            found = in_few_steps(steps)
        except LongMessage:
            self._shared.soon(partial(self._read_on, steps, core))
        except DecodeError as error:
            core.refuse(str(error))
        else:
            self._answered(*found)
            core.release(Hold.REPLY)

    def lost(self, core: _LinkConnection, exc: Exception | None) -> None:
        """The peer closed or reset it."""
        if core is self._core:
            self.drop(SendFailure.DISCONNECTED, str(exc or "the peer closed the connection"))

    def drop(self, failure: SendFailure, reason: str) -> None:
        """Close the connection, if there is one; every request on it ends with `failure`."""
        core, self._core = self._core, None
        if core is not None:
            core.close_at_once()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        going = [*self._sent.values(), *self._unsent]
        self._sent, self._unsent = {}, []
        if going or core is not None:
            _LOG.debug("link to %s: %s", self, reason)
        for pending in going:
            self._end(pending, failure)

    def __str__(self) -> str:
        host, port, purpose = self._target
        return f"{host}:{port} ({getattr(purpose, 'value', purpose)})"


def link_settings(*, client_id: str, connect_timeout_ms: int, max_frame_bytes: int) -> ClientSettings:
    """What the links of a node are told: times in ms, sizes in bytes."""
    return ClientSettings(
        bootstrap=(), client_id=client_id, connect_timeout_ms=connect_timeout_ms, max_frame_bytes=max_frame_bytes
    )
