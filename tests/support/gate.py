"""How does a test hold back some requests to a node, and let all others pass?"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from headrace.wire.codec import decode
from headrace.wire.headers import parse_request_header, peek_request
from headrace.wire.messages.fetch import FetchRequest
from tests.support.relay import Relay, shut

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


class Gate(Relay):
    """A relay that can be shut: then a request that it holds goes no further, and waits.

    `open` ends the connections whose requests were held: who sent them asks again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._holds: Holds | None = None
        self._changed = threading.Condition()
        self.held = 0
        """How many requests were held so far."""
        self.passed = 0
        """How many were passed on."""

    def shut(self, holds: Holds) -> None:
        """From now on these requests are held."""
        self._holds = holds

    def open(self) -> None:
        """Hold nothing any more."""
        with self._changed:
            self._holds = None
            self._changed.notify_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hold nothing, and close every connection."""
        self.open()
        super().__exit__(kind, error, trace)

    def _up(self, near: socket.socket, far: socket.socket) -> None:
        try:
            with near.makefile("rb") as source:
                while (frame := _read(source)) is not None and self._may_pass(frame):
                    far.sendall(_LENGTH.pack(len(frame)) + frame)
        except OSError:
            pass
        shut(near)
        shut(far)

    def _may_pass(self, frame: bytes) -> bool:
        holds = self._holds
        if holds is None or not holds(frame):
            self.passed += 1
            return True
        self.held += 1
        with self._changed:
            self._changed.wait_for(lambda: self._holds is None)
        return False


def _read(source: Any) -> bytes | None:
    """A whole frame without its length; None at the end of the connection."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    body: bytes = source.read(_LENGTH.unpack(head)[0])
    return body
