"""How does a node answer HTTP for its metrics, to anybody who can connect, without harm to itself? (B79)

    GET or HEAD of the one path -> 200; another method -> 405; another path -> 404; what is no HTTP/1 request -> 400 or 505, and the connection is closed
    a header of more than `header_bytes` -> 431, closed; a request that is not complete, or an answer not read, in time -> cut
    more than `connections` -> the one that was silent for longest is cut

It is all on the node's own event loop: one answer a connection and round, and none while an answer before it is still to be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, cast

_LOG = logging.getLogger("headrace.server")
_TEXT: Final = "text/plain; charset=utf-8"


class HttpLimits(NamedTuple):
    """What an asker may take: bytes, connections, seconds."""

    header_bytes: int = 8_192
    connections: int = 32
    header_s: float = 10.0
    """From a connection's or a request's first byte to the end of its header."""
    read_s: float = 10.0
    """How long an answer may wait for its reader."""
    idle_s: float = 120.0
    """How long a connection without a request is kept; scrapes are a minute apart at most, as a rule."""


class Answer(NamedTuple):
    """What is sent back. With `allow`, the methods that the path knows."""

    status: str
    body: bytes = b""
    content_type: str = _TEXT
    allow: str = ""


class Request(NamedTuple):
    """A request's header. Names of fields are in lower case; of fields that come twice, the last counts."""

    method: str
    path: str
    is_kept: bool
    fields: dict[str, str]

    @property
    def accept(self) -> str:
        """What the asker wants to read."""
        return self.fields.get("accept", "")


class BadRequest(Exception):
    """No request that can be answered; `status` says why."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def parse_request(header: bytes) -> Request:
    """The header without its empty line. Raises BadRequest."""
    first, *lines = header.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[0].isascii() or not parts[0].isalpha() or not parts[1]:
        raise BadRequest("400 Bad Request")
    method, target, version = parts
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest("505 HTTP Version Not Supported" if version.startswith("HTTP/") else "400 Bad Request")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest("400 Bad Request")
        fields[name.lower()] = value.strip()
    wish = fields.get("connection", "").lower()
    has_body = fields.get("content-length", "0") != "0" or "transfer-encoding" in fields
    is_kept = not has_body and ("close" not in wish if version == "HTTP/1.1" else "keep-alive" in wish)
    if target.startswith("http://"):
        target = "/" + target[7:].partition("/")[2]
    return Request(method, target.partition("?")[0].partition("#")[0], is_kept, fields)


class Responder:
    """Answers requests for one path. `render` makes the text and its content type, from the `Accept` header."""

    def __init__(self, path: str, render: Callable[[str], tuple[bytes, str]]) -> None:
        self._path = path
        self._render = render

    def answer(self, request: Request) -> Answer:
        """What is sent for it."""
        if request.path != self._path:
            return Answer("404 Not Found", f"there is only {self._path}\n".encode())
        if request.method not in ("GET", "HEAD"):
            return Answer("405 Method Not Allowed", b"GET or HEAD\n", allow="GET, HEAD")
        try:
            body, content_type = self._render(request.accept)
        except Exception:  # noqa: BLE001 - the asker's edge: a metric that is wrong must not stop the node
            _LOG.exception("metrics cannot be shown")
            return Answer("500 Internal Server Error", b"the node's log says why\n")
        return Answer("200 OK", body, content_type)


class HttpConnection(asyncio.Protocol):
    """One connection. Made by `HttpServer`, driven by the event loop."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._is_paused = False
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected; the one that was silent for longest may have to go."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._wait(self._limits.header_s)
        self._server.came(self)

    def data_received(self, data: bytes) -> None:
        """Part of a request, or more than one."""
        if self._is_over:
            return
        self._server.spoke(self)
        if not self._received:
            self._wait(self._limits.header_s)
        self._received += data
        if len(self._received) > self._limits.header_bytes and self._transport is not None:
            self._transport.pause_reading()
        self._take_turn()

    def eof_received(self) -> bool:
        """The asker sends no more; what it asked is answered still."""
        self._is_over = True
        if self._received:
            self._take_turn()
        return bool(self._received)

    def pause_writing(self) -> None:
        """The asker does not read."""
        self._is_paused = True
        self._wait(self._limits.read_s)

    def resume_writing(self) -> None:
        """It does again."""
        self._is_paused = False
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_over and not self._received:
            self._close()
            return
        self._wait(self._limits.header_s if self._received else self._limits.idle_s)
        self._take_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._is_over = True
        self._server.went(self)
        for handle in (self._timer, self._turn):
            if handle is not None:
                handle.cancel()

    def cut(self) -> None:
        """End it now, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.cut)

    def _take_turn(self) -> None:
        """The next answer is for the next round of the loop: others have their turn between two."""
        if self._turn is None and not self._is_paused:
            self._turn = self._loop.call_soon(self._answer_next)

    def _answer_next(self) -> None:
        self._turn = None
        if self._transport is None or self._transport.is_closing() or self._is_paused:
            return
        limit = self._limits.header_bytes
        header, end, rest = self._received.partition(b"\r\n\r\n")
        if len(header) > limit or (not end and len(self._received) > limit):
            self._send(Answer("431 Request Header Fields Too Large"), is_last=True)
        elif not end:
            if self._is_over:
                self._close()
        elif not self._server.is_ready:
            self._server.when_ready(self._take_turn)
        else:
            self._received = rest
            self._respond(header)

    def _respond(self, header: bytes) -> None:
        try:
            request = parse_request(header)
        except BadRequest as bad:
            self._send(Answer(bad.status), is_last=True)
            return
        is_last = not request.is_kept or (self._is_over and not self._received)
        self._send(self._server.responder.answer(request), is_last=is_last, is_head=request.method == "HEAD")
        if is_last or self._transport is None:
            return
        if not self._is_paused:
            self._wait(self._limits.header_s if self._received else self._limits.idle_s)
            if len(self._received) <= self._limits.header_bytes:
                self._transport.resume_reading()
            if self._received:
                self._take_turn()

    def _send(self, answer: Answer, *, is_last: bool, is_head: bool = False) -> None:
        assert self._transport is not None, "connected"
        lines = [
            f"HTTP/1.1 {answer.status}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            f"Connection: {'close' if is_last else 'keep-alive'}",
            *([f"Allow: {answer.allow}"] if answer.allow else []),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._transport.write(head if is_head else head + answer.body)
        if is_last:
            self._close()

    def _close(self) -> None:
        """What was written may still be read, for a while."""
        self._is_over = True
        self._received = b""
        if self._transport is not None:
            self._wait(self._limits.read_s)
            self._transport.close()


class HttpServer:
    """The connections of one listener. `prepare` is awaited by the first request: what it takes to answer is made then."""

    def __init__(
        self, responder: Responder, prepare: Callable[[], asyncio.Future[None]], *, limits: HttpLimits | None = None
    ) -> None:
        self.limits = limits or HttpLimits()
        self.responder = responder
        self.is_ready = False
        self._prepare = prepare
        self._preparing: asyncio.Future[None] | None = None
        self._waiting: dict[Callable[[], None], None] = {}
        self._connections: dict[HttpConnection, None] = {}
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: HttpConnection(self), host or None, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """No more connections."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for connection in list(self._connections):
                connection.cut()
            await server.wait_closed()
        if self._preparing is not None:
            await asyncio.wait([self._preparing])

    # What connections say

    def when_ready(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called once requests can be answered."""
        self._waiting[go_on] = None
        if self._preparing is None:
            self._preparing = self._prepare()
            self._preparing.add_done_callback(self._prepared)

    def _prepared(self, preparing: asyncio.Future[None]) -> None:
        failure = None if preparing.cancelled() else preparing.exception()
        if preparing.cancelled() or failure is not None:
            _LOG.error("metrics cannot be shown: %s", failure or "the node stops")
            for connection in list(self._connections):
                connection.cut()
            self._preparing = None
            return
        self.is_ready = True
        waiting, self._waiting = self._waiting, {}
        for go_on in waiting:
            go_on()

    def came(self, connection: HttpConnection) -> None:
        """A new connection."""
        self._connections[connection] = None
        if len(self._connections) > self.limits.connections:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cut()

    def spoke(self, connection: HttpConnection) -> None:
        """It is the one that was heard last."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def went(self, connection: HttpConnection) -> None:
        """It is gone."""
        self._connections.pop(connection, None)
