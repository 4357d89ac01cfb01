"""TLS of one connection: a stage between its socket and its frames, on memory BIOs.

The stage is the event loop's protocol in place of the connection core, which gets what was opened straight into its own receive buffer. Records that are to be
sent go the core's way out (`headrace.net.output`), to the socket itself. A plain connection has no stage, and pays nothing for it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from headrace.core.holds import Hold
from headrace.net.file_slices import Data

RECORDS_BYTES = 64 << 10
"""So many bytes of records are received at once: four of TLS's largest. What is opened of them is all that a stopped connection still gets."""
_RECORDS_A_TURN = 64
"""So many are opened at once: one takes microseconds, however little is in it, and thousands come at once of a peer that sends a byte in each."""


class PlainSide(Protocol):
    """What gets the opened bytes; `headrace.net.connection_core.ConnectionCore` is the real one."""

    is_closed: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, before any handshake."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where opened bytes go."""

    def buffer_updated(self, nbytes: int) -> None:
        """So many are there."""

    def send_records(self, records: bytes) -> None:
        """Send TLS's own records."""

    def handshake_done(self) -> None:
        """Plain bytes may be sent from now on."""

    def refuse(self, reason: str) -> None:
        """The peer's bytes make no sense."""

    def peer_ended(self) -> None:
        """The peer sent close_notify."""

    def go_on_soon(self, go_on: Callable[[], None]) -> None:
        """More came than is opened in one turn: do not read until `go_on` was called."""

    def release(self, reason: Hold) -> None:
        """This reason not to read is gone."""

    def eof_received(self) -> bool | None:
        """The same without a word."""

    def pause_writing(self) -> None:
        """The transport is full."""

    def resume_writing(self) -> None:
        """The transport has room."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""


class TlsStage(asyncio.BufferedProtocol):
    """One side of one TLS connection. Driven by the event loop; HANDSHAKE -> OPEN -> (close_notify, or an error) ENDED."""

    def __init__(
        self, context: ssl.SSLContext, plain: PlainSide, *, is_server: bool, server_hostname: str | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=server_hostname
        )
        self._plain = plain
        self._records = memoryview(bytearray(RECORDS_BYTES))
        self._has_ended = False
        self.is_open = False

    @property
    def tls(self) -> ssl.SSLObject:
        """Who the peer is, and what was agreed with it."""
        return self._object

    # --- the event loop's calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._plain.connection_made(transport)
        self._advance()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._records

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.write(self._records[:nbytes])
        self._advance()

    def eof_received(self) -> bool | None:
        return self._plain.eof_received()

    def pause_writing(self) -> None:
        self._plain.pause_writing()

    def resume_writing(self) -> None:
        self._plain.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._plain.connection_lost(exc)

    # --- the way in ---

    def _advance(self) -> None:
        """Do what the records that have come allow: the handshake, then opened bytes."""
        if self._plain.is_closed or self._has_ended:
            return
        try:
            if self.is_open or self._handshake():
                self._open_records()
        except ssl.SSLError as error:
            self._has_ended = True
            self._send_own_records()  # the alert that says why
            step = "a TLS record" if self.is_open else "the TLS handshake"
            self._plain.refuse(f"{step} failed: {error.reason or error}")

    def _handshake(self) -> bool:
        """True once the handshake is over. Raises ssl.SSLError."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._send_own_records()
            return False
        self.is_open = True
        self._send_own_records()
        self._plain.handshake_done()
        return True

    def _open_records(self) -> None:
        """Give the plain side what is in the records, straight into its buffer: as much at once as a plain socket would. Raises ssl.SSLError."""
        plain = self._plain
        left = _RECORDS_A_TURN
        try:
            while left > 0 and not plain.is_closed:
                left -= self._fill(plain.get_buffer(-1), left)
        except ssl.SSLWantReadError:
            self._send_own_records()
        except ssl.SSLZeroReturnError:
            self._peer_ended()
        else:
            plain.go_on_soon(self._go_on)

    def _fill(self, view: memoryview, most: int) -> int:
        """Open records until this is full; how many they were. Raises ssl.SSLError, when the plain side has what was opened before."""
        read = cast("Callable[[int, memoryview], int]", self._object.read)
        size, filled, opened = len(view), 0, 0
        try:
            while filled < size and opened < most:
                count = read(size - filled, view[filled:])
                if not count:
                    raise ssl.SSLZeroReturnError
                filled += count
                opened += 1
        finally:
            if filled:
                self._plain.buffer_updated(filled)
        return opened

    def _go_on(self) -> None:
        self._plain.release(Hold.RECORDS)
        self._advance()

    def _peer_ended(self) -> None:
        self._has_ended = True
        self._plain.peer_ended()

    # --- the way out ---

    def seal(self, data: Data) -> bytes:
        """The records that carry `data`. Raises ssl.SSLError, an OSError."""
        self._object.write(data)
        return self._outgoing.read()

    def close_notify(self) -> bytes:
        """The record that ends a TLS connection."""
        if not self.is_open or self._has_ended:
            return b""
        self._has_ended = True
        with suppress(ssl.SSLError):  # the peer's own is not waited for
            self._object.unwrap()
        return self._outgoing.read()

    def _send_own_records(self) -> None:
        records = self._outgoing.read()
        if records:
            self._plain.send_records(records)
