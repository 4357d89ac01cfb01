"""How does a test hold back some requests to a node, and let all others pass?"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from headrace.wire.codec import decode
from headrace.wire.headers import parse_request_header, peek_request
from headrace.wire.messages.fetch import FetchRequest

Holds = Callable[[bytes], bool]
_LENGTH = struct.Struct(">i")
_FETCH = 1


def fetches_of(replica_id: int) -> Holds:
    """Frames with which this replica asks for records."""

    def is_held(frame: bytes) -> bool:
        if peek_request(frame).api_key != _FETCH:
            return False
        header = parse_request_header(frame)
        request: Any = decode(FetchRequest, frame[header.body :], header.api_version)
        return replica_id in (request.replica_id, request.replica_state.replica_id)

    return is_held


class Gate:
    """Passes connections on to another address. While it is shut, a request that it holds goes no further, and waits.

    As a context manager it listens on `port`. `open` ends the connections whose requests were held: who sent them asks again.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._target = ("127.0.0.1", 0)
        self._holds: Holds | None = None
        self._changed = threading.Condition()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.held = 0
        """How many requests were held so far."""
        self.passed = 0
        """How many were passed on."""

    def to(self, host: str, port: int) -> None:
        """Where connections go."""
        self._target = (host, port)

    def shut(self, holds: Holds) -> None:
        """From now on these requests are held."""
        self._holds = holds

    def open(self) -> None:
        """Hold nothing any more."""
        with self._changed:
            self._holds = None
            self._changed.notify_all()

    def __enter__(self) -> Self:
        """Listen."""
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        self.open()
        for each in (self._listener, *self._open):
            _shut(each)
        for thread in self._threads:
            thread.join(10)
        for each in (self._listener, *self._open):
            each.close()

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(near)
            try:
                far = socket.create_connection(self._target, 5)
            except OSError:
                _shut(near)
                continue
            far.settimeout(None)
            self._open.append(far)
            self._run(self._ask, near, far)
            self._run(self._answer, far, near)

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        try:
            with near.makefile("rb") as source:
                while (frame := _read(source)) is not None and self._may_pass(frame):
                    far.sendall(_LENGTH.pack(len(frame)) + frame)
        except OSError:
            pass
        _shut(near)
        _shut(far)

    def _may_pass(self, frame: bytes) -> bool:
        holds = self._holds
        if holds is None or not holds(frame):
            self.passed += 1
            return True
        self.held += 1
        with self._changed:
            self._changed.wait_for(lambda: self._holds is None)
        return False

    def _answer(self, far: socket.socket, near: socket.socket) -> None:
        try:
            while data := far.recv(65_536):
                near.sendall(data)
        except OSError:
            pass
        _shut(near)
        _shut(far)


def _read(source: Any) -> bytes | None:
    """A whole frame without its length; None at the end of the connection."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    body: bytes = source.read(_LENGTH.unpack(head)[0])
    return body


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
