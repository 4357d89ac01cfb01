"""How do replies reach a connection's socket at the least cost, and what happens when the peer does not read them?

A hot file: it runs once for the requests of one turn. Without TLS the bytes go straight to the socket (`direct`, a duplicate of the
transport's descriptor), file bytes by `sendfile`; what the kernel does not take now goes when the socket is writable again. With TLS, and while a
connection closes, they go through the transport.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from headrace.core.errors import StorageFault
from headrace.net.ports import FileBytes, ReadableFile

_FILE_PART_BYTES = 1 << 20
_COPY_UP_TO_BYTES = 4096
"""Slices up to this size are read and sent with what stands around them: one system call fewer than `sendfile`."""

Data = bytes | bytearray | memoryview
Piece = Data | FileBytes


class Output:
    """What is still to be sent on one connection. Driven by `headrace.net.protocol.ServerConnection`.

    States: open -> full (`is_full`, the kernel or the transport takes no more; `since` is when it last took something, in seconds of `now`)
    -> open again, which `drained` is told. `broken` is told when stored bytes could not be read.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        now: Callable[[], float],
        drained: Callable[[], None],
        broken: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._now = now
        self._drained = drained
        self._broken = broken
        self._waiting: deque[Piece] = deque()
        self._direct: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_full = False
        self.since: float | None = None
        if transport.get_extra_info("ssl_object") is None:
            plain = transport.get_extra_info("socket")
            self._direct = None if plain is None else _second_way(plain)

    def send(self, pieces: list[Piece]) -> None:
        """Send the pieces in order, behind what waits."""
        waiting = self._waiting
        if waiting or self.is_full:
            waiting.extend(pieces)
            return
        direct = self._direct
        if direct is None:
            waiting.extend(pieces)
            self._pump()
            return
        try:
            data = b"".join(pieces)  # type: ignore[arg-type] # fails, cheaply, when there is a slice of a file among them
        except TypeError:
            waiting.extend(pieces)
            self._send_waiting()
            return
        try:
            done = direct.send(data)
        except OSError:
            done = 0
        if done < len(data):
            waiting.append(memoryview(data)[done:])
            self._send_waiting()

    # --- straight to the socket ---

    def _send_waiting(self) -> None:
        """Give the kernel what it takes, and go on when it takes more."""
        direct = self._direct
        assert direct is not None, "only used without TLS"
        try:
            _push(direct, self._waiting)
        except BlockingIOError:
            self._watch(direct)
        except _Unreadable:
            self._broken()
        except OSError:
            self._leave_direct()  # the transport meets the same error, and says what becomes of the connection
            self._pump()

    def _watch(self, direct: socket.socket) -> None:
        self.since = self._now()
        if not self.is_full:
            self.is_full = True
            self._loop = asyncio.get_running_loop()
            self._loop.add_writer(direct.fileno(), self._writable)

    def _writable(self) -> None:
        self._send_waiting()
        if self._waiting or not self.is_full:
            return
        self._unwatch()
        self._drained()

    def _unwatch(self) -> None:
        self.is_full = False
        self.since = None
        loop, self._loop = self._loop, None
        if loop is not None and self._direct is not None:
            loop.remove_writer(self._direct.fileno())

    def _leave_direct(self) -> None:
        if self._loop is not None:
            self._unwatch()
        direct, self._direct = self._direct, None
        if direct is not None:
            direct.close()

    # --- through the transport ---

    def transport_is_full(self) -> None:
        """The transport holds as much as it may."""
        self.is_full = True
        self.since = self._now()

    def transport_has_room(self) -> None:
        """The transport takes bytes again."""
        self.is_full = False
        self.since = None
        self._pump()
        if not self.is_full:
            self._drained()

    def _pump(self) -> None:
        """Hand the transport what waits while it has room. File bytes are read a part at a time."""
        waiting = self._waiting
        while waiting and not self.is_full:
            piece = waiting[0]
            if isinstance(piece, bytes | bytearray | memoryview):
                waiting.popleft()
                self._transport.write(piece)
                continue
            try:
                chunk, rest = _read_part(piece)
            except _Unreadable:
                waiting.clear()
                self._broken()
                return
            if rest is None:
                waiting.popleft()
            else:
                waiting[0] = rest
            self._transport.write(chunk)

    # --- the end ---

    def finish(self) -> None:
        """The connection closes: the transport gets what is left, as far as it has room, and sends it before it closes."""
        self._leave_direct()
        self._pump()

    def drop(self) -> None:
        """Nothing more is sent."""
        self._waiting.clear()
        self._leave_direct()


class _Unreadable(Exception):
    """Stored bytes could not be read."""


class _Rest:
    """What is still to be sent of a slice of a file."""

    __slots__ = ("file", "position", "size")

    def __init__(self, part: FileBytes, done: int) -> None:
        self.file: ReadableFile | None = part.file
        self.position = part.position + done
        self.size = part.size - done


def _second_way(plain: socket.socket) -> socket.socket | None:
    """Another descriptor of a connection; None when the process may have no more of them."""
    try:
        direct = socket.socket(fileno=os.dup(plain.fileno()))
    except OSError:
        return None
    _do_not_pace_locally(direct)
    return direct


def _do_not_pace_locally(connection: socket.socket) -> None:
    """Between two processes of one machine, take the plainest congestion control, which every Linux has and allows.

    One that paces (BBR) sets a timer for each packet, and settles on a fraction of the speed for as long as a connection lives, by chance.
    """
    option = getattr(socket, "TCP_CONGESTION", None)
    try:
        if option is not None and connection.getpeername()[0] == connection.getsockname()[0]:
            connection.setsockopt(socket.IPPROTO_TCP, option, b"reno")
    except OSError:
        return  # it is only about speed


def _push(direct: socket.socket, waiting: deque[Piece]) -> None:
    """Send and remove what waits. Raises BlockingIOError when the kernel takes no more, OSError, or _Unreadable.

    Bytes before a slice of a file travel in one packet with it, and those behind it with its last one: a reader is woken once.
    """
    is_corked = False
    try:
        while waiting:
            _join_first(waiting)
            piece = waiting[0]
            has_more = len(waiting) > 1
            if isinstance(piece, bytes | bytearray | memoryview):
                done = direct.send(piece, socket.MSG_MORE if has_more else 0)
                if done < len(piece):
                    waiting[0] = memoryview(piece)[done:]
                    continue
            else:
                if has_more and not is_corked:
                    direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                    is_corked = True
                done = os.sendfile(direct.fileno(), _descriptor(piece), piece.position, piece.size)
                if done < piece.size:
                    if not done:
                        raise _Unreadable
                    waiting[0] = _Rest(piece, done)
                    continue
            waiting.popleft()
    finally:
        if is_corked:
            direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def _join_first(waiting: deque[Piece]) -> None:
    """Make one piece of the bytes and small slices at the front."""
    parts: list[Data] = []
    while waiting:
        piece = waiting[0]
        if not isinstance(piece, bytes | bytearray | memoryview):
            if piece.size > _COPY_UP_TO_BYTES and _descriptor(piece) >= 0:
                break
            piece, rest = _read_part(piece)
            if rest is not None:
                waiting[0] = rest
                parts.append(piece)
                break
        waiting.popleft()
        parts.append(piece)
    if parts:
        waiting.appendleft(parts[0] if len(parts) == 1 else b"".join(parts))


def _descriptor(piece: FileBytes) -> int:
    """The descriptor of the slice's file, -1 if it has none."""
    found: int = getattr(piece.file, "fd", -1)
    return found


def _read_part(piece: FileBytes) -> tuple[bytes, FileBytes | None]:
    """The next bytes of a slice, and what is left of it. Raises _Unreadable."""
    file = piece.file
    size = min(piece.size, _FILE_PART_BYTES)
    if file is None:
        raise _Unreadable
    try:
        part = file.pread(size, piece.position)
    except StorageFault:
        raise _Unreadable from None
    if len(part) != size:
        raise _Unreadable
    return part, cast("FileBytes", _Rest(piece, size)) if size < piece.size else None
