"""An accepted connection: admission, its request side, and why it is closed."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol, cast

from headrace.core.holds import Hold
from headrace.net.closed_log import ClosedConnectionLog
from headrace.net.connection_core import ConnectionCore
from headrace.net.connection_shared import ConnectionShared
from headrace.net.creation_rate import PeerGone, peer_of
from headrace.net.ports import FrameHandler
from headrace.net.protocol_hints import hint_for
from headrace.net.tls import TlsStage

_LONG_FROM_BYTES = 1 << 20
"""Frames of more bytes are refused by what they begin with, where they can be."""
_HEAD_BYTES = 4


class ConnectionHub(ConnectionShared, Protocol):
    """What a connection needs of its listener; `headrace.net.listener.Listener` is the real one."""

    name: str
    closed_log: ClosedConnectionLog

    def may_begin(self, connection: ServerConnection, let_in: Callable[[], None]) -> bool:
        """Whether a new connection may be read now; else `let_in` is called when it may (`max.connection.creation.rate`)."""

    def waits_for_room(self, connection: ServerConnection) -> bool:
        """Whether a new connection must wait until others went; it is told when it is `admitted`."""

    def admit(self, connection: ServerConnection) -> str | None:
        """Count a new connection; or the reason why it is refused."""

    def gone(self, connection: ServerConnection) -> None:
        """A connection ended, which was counted or waited."""

    def report_bug(self, connection: ServerConnection, fault: Exception) -> None:
        """A handler failed in a way that it should not."""

    def handler_for(self, connection: ServerConnection) -> FrameHandler:
        """The request side of a new connection."""


class ServerConnection(ConnectionCore):
    """One accepted connection of a listener; gives whole requests to its `FrameHandler`, in order, and is its `ConnectionOut`."""

    def __init__(self, listener: ConnectionHub, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(listener, tls=None if tls is None else lambda core: TlsStage(tls, core, is_server=True))
        self._listener = listener
        self._handler: FrameHandler = cast("FrameHandler", None)

    def opened(self) -> None:
        """Admitted, closed at once, or left unread until there is room."""
        listener = self._listener
        if listener.waits_for_room(self):
            self.hold(Hold.ADMISSION)
            self._read_little()
            listener.soon(self.read_again)
            return
        self.admitted()

    def admitted(self) -> None:
        """There is room for one more; closed all the same where its host has too many."""
        listener = self._listener
        refusal = listener.admit(self)
        if refusal is not None:
            self.close(refusal)
            return
        self._handler = listener.handler_for(self)
        self.frame = self._handler.frame
        has_waited = Hold.ADMISSION in self.holds
        begins = listener.may_begin(self, self._let_in)
        if not begins:
            self.hold(Hold.ADMISSION)
        elif has_waited:
            self._let_in()
        if not begins or listener.memory.is_exhausted:
            self._read_little()
            listener.soon(self.read_again)

    def _let_in(self) -> None:
        """It waited for us: what it may take of time counts from now on."""
        self.active_at = self._listener.now()
        if self.frame_since is not None:
            self.frame_since = self.active_at
        self.release(Hold.ADMISSION)

    def peer_has_gone(self) -> PeerGone | None:
        """Whether the peer has left a connection that is not read yet."""
        if self.is_closed:
            return PeerGone(has_said_something=False)
        gone = peer_of(self.descriptor)
        return gone if gone is None or not self._first else PeerGone(has_said_something=True)

    def drop(self) -> None:
        """Its peer has gone, and has nothing to say."""
        self.close_at_once()

    def refuse(self, reason: str) -> None:
        """The peer's bytes make no sense."""
        self.close(reason)

    def failed(self, fault: Exception) -> None:
        """A bug of ours."""
        self._listener.report_bug(self, fault)

    def lost(self, exc: Exception | None) -> None:
        """It is counted no more, and nobody waits for its replies."""
        self._listener.gone(self)
        if self._handler is not None:
            self._handler.closed()

    def _keep_rest(self, buffer: bytearray, frame_size: int) -> None:
        at = self._pos + 4
        if frame_size >= _LONG_FROM_BYTES and self._end >= at + _HEAD_BYTES:
            self._handler.begins(memoryview(buffer)[at : at + _HEAD_BYTES], frame_size)
            if self.is_closed:
                return
        super()._keep_rest(buffer, frame_size)

    def close(self, reason: str) -> None:
        """Close after what is ready was sent; `reason` is logged."""
        if not self.is_closed:
            hint = hint_for(self._first)
            self._listener.closed_log.closed(listener=self._listener.name, peer=self.peer, reason=reason, hint=hint)
            self.close_after_sending()

    def abort(self, reason: str) -> None:
        """Close without waiting for unsent output."""
        if not self.is_closed:
            self.pieces.clear()
            self._output.drop()
            self.close(reason)
        self.close_at_once()
