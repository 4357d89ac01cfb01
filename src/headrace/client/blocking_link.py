"""Frames through one blocking socket, with one copy of large payloads at most."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import time
from typing import Any

from headrace.client.connection import SESSION_USED, Connection
from headrace.client.settings import ClientSettings
from headrace.client.talk import Address, Answered, Unsupported
from headrace.core.errors import DecodeError
from headrace.wire.framing import LENGTH_BYTES, SMALLEST_RESPONSE, frame_length

_INPUT_BYTES = 64 << 10
_KEPT_BUFFERS = 4
_IDLE_CHECK_S = 1.0


class LinkLost(Exception):
    """The connection cannot be used any more: refused, cut, too slow, or the peer sends what is no answer (B29)."""

    def __init__(self, reason: str, *, may_have_arrived: bool = True) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


class Link:
    """One connection to one node: opened and logged in by the constructor. Every failure is a LinkLost, and the link is then dead."""

    def __init__(self, address: Address, settings: ClientSettings, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self._max_frame_bytes = settings.max_frame_bytes
        self._connection = Connection(settings)
        self._input = bytearray(_INPUT_BYTES)
        self._view = memoryview(self._input)
        self._start = self._end = 0
        self._buffers: list[bytearray] = []
        self._answers: dict[int, Answered] = {}
        self._used_at = time.monotonic()
        self._expires_at = float("inf")
        self._socket = self._connect(settings, tls)
        try:
            self._open(settings)
        except BaseException:
            self.close()
            raise

    @property
    def api_versions(self) -> Any:
        """The node's ApiVersionsResponse."""
        return self._connection.api_versions

    def fileno(self) -> int:
        """The socket's descriptor, for `select.poll`."""
        return self._socket.fileno()

    @property
    def has_input(self) -> bool:
        """True if `receive` has something to say that polling the socket would not tell: bytes of an answer lie here, or the link is closed."""
        if self._end > self._start or self._answers or self._socket.fileno() < 0:
            return True
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def close(self) -> None:
        """Close the socket; answers that were due are lost."""
        self._socket.close()

    def is_stale(self) -> bool:
        """True if the node closed the connection while it was idle, or soon will because the login expires (KIP-368)."""
        if not self._connection.pending and time.monotonic() >= self._expires_at:
            return True
        if self._connection.pending or time.monotonic() - self._used_at < _IDLE_CHECK_S:
            return False
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(0))

    def send(self, request: Any, timeout_ms: int, *, is_answered: bool = True) -> int | Unsupported:
        """Write a request; its correlation id. Raises LinkLost."""
        chosen = self._connection.choose(request)
        if isinstance(chosen, Unsupported):
            return chosen
        correlation_id, frame = self._connection.request(*chosen, is_answered=is_answered)
        self._write(frame, timeout_ms)
        return correlation_id

    def receive(self, correlation_id: int, timeout_ms: int) -> Answered:
        """The answer to one request; answers to earlier ones are kept for their callers. Raises LinkLost."""
        kept = self._answers.pop(correlation_id, None)
        if kept is not None:
            return kept
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            found = self._received(self._frame(deadline))
            assert isinstance(found, tuple)
            if found[0] == correlation_id:
                return found[1]
            self._answers[found[0]] = found[1]

    def _connect(self, settings: ClientSettings, tls: ssl.SSLContext | None) -> socket.socket:
        host, port = self.address.host, self.address.port
        timeout = max(settings.connect_timeout_ms, 1) / 1000
        try:
            plain = socket.create_connection((host, port), timeout=timeout)
        except (socket.gaierror, ValueError):  # a name with an empty or a long label, or a NUL byte, is none either
            raise LinkLost(f"cannot resolve the host name {host}", may_have_arrived=False) from None
        except ConnectionRefusedError:
            raise LinkLost("connection refused", may_have_arrived=False) from None
        except OSError as error:
            raise LinkLost(f"cannot connect: {error.strerror or error}", may_have_arrived=False) from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return plain
        try:
            return tls.wrap_socket(plain, server_hostname=host)
        except (OSError, ValueError) as error:  # the latter for a name that no certificate can have
            plain.close()
            raise LinkLost(f"TLS handshake failed: {error}", may_have_arrived=False) from None

    def _open(self, settings: ClientSettings) -> None:
        deadline = time.monotonic() + settings.request_timeout_ms / 1000
        frame = self._connection.opening()
        while not self._connection.is_ready:
            if frame:
                self._write(frame, settings.request_timeout_ms)
            found = self._received(self._frame(deadline))
            assert isinstance(found, bytes)
            frame = found
        if self._connection.session_ms:
            self._expires_at = time.monotonic() + SESSION_USED * self._connection.session_ms / 1000

    def _received(self, frame: bytearray | memoryview) -> tuple[int, Answered] | bytes:
        try:
            return self._connection.received(frame)
        except DecodeError as error:
            raise LinkLost(f"the answer cannot be read: {error}") from None

    def _write(self, frame: bytes, timeout_ms: int) -> None:
        self._used_at = time.monotonic()
        try:
            self._socket.settimeout(max(timeout_ms, 1) / 1000)
            self._socket.sendall(frame)
        except TimeoutError:
            raise LinkLost(f"the node took no request for {timeout_ms} ms") from None
        except OSError as error:
            raise LinkLost(f"the connection broke: {error.strerror or error}") from None

    def _frame(self, deadline: float) -> bytearray | memoryview:
        """The next frame without its length: a copy of its own when small, else in a buffer that nobody uses any more."""
        while self._end - self._start < LENGTH_BYTES:
            self._fill(deadline)
        try:
            size = frame_length(self._input, self._start, smallest=SMALLEST_RESPONSE, largest=self._max_frame_bytes)
        except DecodeError as error:
            raise LinkLost(f"the peer does not answer in Kafka's protocol: {error}") from None
        self._start += LENGTH_BYTES
        if size <= _INPUT_BYTES // 2:
            while self._end - self._start < size:
                self._fill(deadline)
            small = self._input[self._start : self._start + size]
            self._start += size
            return small
        target = self._target(size)
        held = min(self._end - self._start, size)
        target[:held] = self._view[self._start : self._start + held]
        self._start += held
        while held < size:
            held += self._receive_into(target[held:], deadline)
        return target

    def _fill(self, deadline: float) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == _INPUT_BYTES:
            self._input[: self._end - self._start] = self._input[self._start : self._end]
            self._start, self._end = 0, self._end - self._start
        self._end += self._receive_into(self._view[self._end :], deadline)

    def _receive_into(self, view: memoryview, deadline: float) -> int:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LinkLost("no answer came in time")
        try:
            self._socket.settimeout(left)
            count = self._socket.recv_into(view)
        except TimeoutError:
            raise LinkLost("no answer came in time") from None
        except OSError as error:
            raise LinkLost(f"the connection broke: {error.strerror or error}") from None
        if count == 0:
            raise LinkLost("the node closed the connection")
        return count

    def _target(self, size: int) -> memoryview:
        """Memory for a large frame: a buffer of ours that no view points into any more, or a new one."""
        for number in range(len(self._buffers)):
            if len(self._buffers[number]) >= size and sys.getrefcount(self._buffers[number]) == 2:
                return memoryview(self._buffers[number])[:size]
        fresh = bytearray(size + (size >> 3))
        if len(self._buffers) >= _KEPT_BUFFERS:
            self._buffers.pop(0)
        self._buffers.append(fresh)
        return memoryview(fresh)[:size]
