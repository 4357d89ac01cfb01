"""The HTTP server of a node's metrics, for anybody who can connect, without harm to the node (B79).

    GET or HEAD of the one path -> 200; another method -> 405; another path -> 404; what is no HTTP/1 request -> 400 or 505, and the connection is closed
    a header of more than `header_bytes` -> 431, closed; a request that is not complete, or an answer not read, in time -> cut
    more than `connections` -> the one that was silent for longest is cut

`h11` reads requests and writes responses. Here are the limits: it is all on the node's own event loop, one answer a connection and round, and
none while an answer before it is still to be read.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple, cast

import h11

_LOG = logging.getLogger("headrace.server")
_TEXT: Final = "text/plain; charset=utf-8"
_END: Final = b"\r\n\r\n"
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_FORBIDDEN: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]")
"""Bytes that no header has (RFC 9110, 5.5). Behind 8,000 blanks one of them would take h11's patterns 0.3 s to refuse."""


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

    status: HTTPStatus
    body: bytes = b""
    content_type: str = _TEXT
    allow: str = ""


class Responder:
    """Answers requests for one path. `render` makes the text and its content type, from the `Accept` header."""

    def __init__(self, path: str, render: Callable[[str], tuple[bytes, str]]) -> None:
        self._path = path
        self._render = render

    def answer(self, request: h11.Request) -> Answer:
        """What is sent for it."""
        target = request.target.decode("ascii")
        if target.startswith("http://"):
            target = "/" + target[7:].partition("/")[2]
        if target.partition("?")[0].partition("#")[0] != self._path:
            return Answer(HTTPStatus.NOT_FOUND, f"there is only {self._path}\n".encode())
        if request.method not in (b"GET", b"HEAD"):
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"GET or HEAD\n", allow="GET, HEAD")
        accept = b",".join(value for name, value in request.headers if name == b"accept")
        try:
            body, content_type = self._render(accept.decode("latin-1"))
        except Exception:  # noqa: BLE001 - the asker's edge: a metric that is wrong must not stop the node
            _LOG.exception("metrics cannot be shown")
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"the node's log says why\n")
        return Answer(HTTPStatus.OK, body, content_type)


class _Requests:
    """The requests on one connection, read by `h11` out of the bytes that came; none has a body that is read."""

    def __init__(self, header_bytes: int) -> None:
        self._most = header_bytes + len(_END)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._most - 1)
        self._received = b""
        self._next: h11.Request | None = None

    def __len__(self) -> int:
        """Bytes of requests that are still to be answered."""
        return len(self._received) + len(self._http.trailing_data[0]) + (self._next is not None)

    def add(self, data: bytes) -> None:
        """More bytes came."""
        self._received += data

    def next(self) -> h11.Request | None:
        """The next request, which stays the next one until it is `answered`; None while it is not complete. Raises h11.RemoteProtocolError."""
        if self._next is None:
            held = self._http.trailing_data[0]
            more = self._received[: self._most - len(held)]  # so that no header gets longer than it may be
            self._received = self._received[len(more) :]
            header = held + more
            end = _BLANK_LINE.search(header)
            if _FORBIDDEN.search(header, 0, len(header) if end is None else end.end()):
                raise h11.RemoteProtocolError("control characters")
            if more:
                self._http.receive_data(more)
            event = self._http.next_event()
            if not isinstance(event, h11.Request):
                return None
            if event.http_version not in (b"1.0", b"1.1"):
                raise h11.RemoteProtocolError("version", error_status_hint=HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
            self._next = event
        return self._next

    def answered(self, answer: Answer, *, is_last: bool) -> tuple[bytes, bool]:
        """The bytes of the answer to the next request, or to what is none; and whether another request may follow it."""
        request, self._next = self._next, None
        if request is None or _has_body(request):
            is_last = True
        else:
            self._http.next_event()  # the end of the request
        headers = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body)))]
        headers += [("Allow", answer.allow)] if answer.allow else []
        headers += [("Connection", "close")] if is_last else []
        response = h11.Response(status_code=answer.status, headers=headers, reason=answer.status.phrase)
        data = self._http.send(response)
        if request is None or request.method != b"HEAD":
            data += self._http.send(h11.Data(data=answer.body))
        data += self._http.send(h11.EndOfMessage())
        if self._http.our_state is not h11.DONE:
            return data, False
        self._http.start_next_cycle()
        return data, True


def _has_body(request: h11.Request) -> bool:
    """Something follows the header that nobody wants to read."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and int(value) > 0)
        for name, value in request.headers
    )


class HttpConnection(asyncio.Protocol):
    """One connection. Made by `HttpServer`, driven by the event loop."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._requests = _Requests(server.limits.header_bytes)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._has_waited = False
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
        if not self._requests:
            self._wait(self._limits.header_s)
        self._requests.add(data)
        if len(self._requests) > self._limits.header_bytes and self._transport is not None:
            self._transport.pause_reading()
        self._take_turn()

    def eof_received(self) -> bool:
        """The asker sends no more; what it asked is answered still."""
        self._is_over = True
        if self._requests:
            self._take_turn()
        return bool(self._requests)

    def pause_writing(self) -> None:
        """The asker does not read."""
        self._is_paused = True
        self._wait(self._limits.read_s)

    def resume_writing(self) -> None:
        """It does again."""
        self._is_paused = False
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_over and not self._requests:
            self._close()
            return
        self._wait(self._limits.header_s if self._requests else self._limits.idle_s)
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
        try:
            request = self._requests.next()
        except h11.RemoteProtocolError as bad:
            self._send(Answer(HTTPStatus(bad.error_status_hint)), is_last=True)
            return
        if request is None:
            if self._is_over:
                self._close()
            else:
                self._transport.resume_reading()
        elif not self._has_waited and not self._server.is_ready():
            self._server.when_ready(self._go_on)
        else:
            self._has_waited = False
            self._send(self._server.responder.answer(request), is_last=False)

    def _go_on(self) -> None:
        """What it takes to answer was made just now: answer, however long this turn was in coming."""
        self._has_waited = True
        self._take_turn()

    def _send(self, answer: Answer, *, is_last: bool) -> None:
        assert self._transport is not None, "connected"
        is_last = is_last or (self._is_over and len(self._requests) == 1)
        data, may_follow = self._requests.answered(answer, is_last=is_last)
        self._transport.write(data)
        if not may_follow:
            self._close()
        elif not self._is_paused:
            self._wait(self._limits.header_s if self._requests else self._limits.idle_s)
            if len(self._requests) <= self._limits.header_bytes:
                self._transport.resume_reading()
            if self._requests:
                self._take_turn()

    def _close(self) -> None:
        """What was written may still be read, for a while."""
        self._is_over = True
        if self._transport is not None:
            self._wait(self._limits.read_s)
            self._transport.close()


class HttpServer:
    """The connections of one listener. `prepare` is awaited by a request that finds that all is not `is_ready` (None: by the first one): what it takes to answer is made then."""

    def __init__(
        self,
        responder: Responder,
        prepare: Callable[[], asyncio.Future[None]],
        *,
        limits: HttpLimits | None = None,
        is_ready: Callable[[], bool] | None = None,
    ) -> None:
        self.limits = limits or HttpLimits()
        self.responder = responder
        self._is_prepared = False
        self.is_ready = is_ready or (lambda: self._is_prepared)
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
        self._is_prepared, self._preparing = True, None
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
