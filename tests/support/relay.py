"""How many bytes cross one way to a node?"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Relay:
    """Passes connections on to another address, and counts the bytes that come back. As a context manager it listens on `port`."""

    def __init__(self) -> None:
        self.bytes_down = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._target: tuple[str, int] | None = None
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def to(self, host: str, port: int) -> None:
        """Where connections go."""
        self._target = (host, port)

    def __enter__(self) -> Self:
        """Listen."""
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        for each in (self._listener, *self._open):
            shut(each)
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
                assert self._target is not None
                far = socket.create_connection(self._target, 5)
            except OSError:
                shut(near)
                continue
            far.settimeout(None)
            self._open.append(far)
            self._run(self._up, near, far)
            self._run(self._down, far, near)

    def _up(self, near: socket.socket, far: socket.socket) -> None:
        """All that comes to the node, until one side ends it."""
        self._pass(near, far)

    def _down(self, far: socket.socket, near: socket.socket) -> None:
        self._pass(far, near, is_counted=True)

    def _pass(self, source: socket.socket, target: socket.socket, *, is_counted: bool = False) -> None:
        try:
            while data := source.recv(65_536):
                if is_counted:
                    self.bytes_down += len(data)
                target.sendall(data)
        except OSError:
            pass
        shut(source)
        shut(target)


def shut(connection: socket.socket) -> None:
    """End both ways; its threads see the end."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
