"""How does one address stand for several nodes, as a load balancer's does?"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

Address = tuple[str, int]


class Vip:
    """Listens on 127.0.0.1:`port` and hands each connection to the next of `targets()` that takes it. A context manager."""

    def __init__(self, targets: Callable[[], Sequence[Address]]) -> None:
        self._targets = targets
        self._turn = itertools.count()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        with self._lock:
            self._is_closed = True
            for each in (self._server, *self._open):
                _hang_up(each)
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = self._connect()
            if server is None:
                client.close()
                continue
            with self._lock:
                if self._is_closed:
                    client.close()
                    server.close()
                    return
                self._open |= {client, server}
            self._spawn(self._pass_on, client, server)
            self._spawn(self._pass_on, server, client)

    def _connect(self) -> socket.socket | None:
        targets = self._targets()
        start = next(self._turn)
        for index in range(len(targets)):
            try:
                return socket.create_connection(targets[(start + index) % len(targets)], 2)
            except OSError:
                continue
        return None

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            source.settimeout(None)
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        finally:
            with self._lock:
                for each in (source, target):
                    self._open.discard(each)
                    _hang_up(each)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        connection.close()
