"""The output of one connection: responses on the cheapest way to its socket, also when the peer does not read them.

A hot file: it runs once for the requests of one turn. Bytes go straight to the socket (`_direct`: the transport's own descriptor), many file bytes by
`sendfile` unless TLS must seal them first, few together with what stands around them; what the kernel does not take now goes when the socket is writable again. Bytes of files that are not in the
page cache are read by a thread before they are sent, so that nobody waits for one connection's disk. While a connection closes, and where
the process has no descriptor left to watch a socket with, what is left goes through the transport.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headrace.core.holds import Hold
from headrace.net.file_slices import PART_BYTES, ColdSlice, Data, Piece, SliceRest, Unreadable, copied, unsent
from headrace.net.writable import WritableSockets, writable_sockets

_DATA = (bytes, bytearray, memoryview)
_COPY_UP_TO_BYTES = 4096
"""Slices up to this size are read and sent with what stands around them: one system call fewer than `sendfile`."""
_ONE_FROM_BYTES = 24 << 10
_PACKET_BYTES = 64 << 10
_PAGE_BYTES = 4096
"""A slice of as many pages as fit into a packet goes by `sendfile` in one: that costs less here, and as much more at the receiver, which reads memory that no cache has."""
_JOINED_AT_ONCE = 128
_FEW_PIECES = 2
_JOINED_BYTES = 256 << 10
"""So much is copied to be sent at once: larger pieces travel alone."""
_BYTES_A_TURN = 16 << 20
_PIECES_A_TURN = 512
"""Of answers with very many slices, which a quick reader could take for long: others have their turns in between."""
_SEALED_A_TURN = 16
_SEALED_AT_ONCE_BYTES = 256 << 10
"""So much is read, sealed and handed on before the socket is asked for more room."""


class Seal(Protocol):
    """Makes TLS records of bytes; `headrace.net.tls.TlsStage` is the real one."""

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""

    def seal(self, data: Data) -> bytes:
        """The records that carry `data`. Raises OSError."""

    def close_notify(self) -> bytes:
        """The last record; empty when there is none to send."""


class Output:
    """What is still to be sent on one connection. Driven by `headrace.net.connection_core.ConnectionCore`.

    `holds` are the connection's: `Hold.OUTPUT` is among them while the kernel or the transport takes no more (`since` is when it last took something, in seconds
    of `now`), `Hold.DISK` while a thread reads bytes of a file; `drained` is told when they are gone. `broken` is told when stored bytes could not be read.
    """

    __slots__ = (
        "_broken",
        "_direct",
        "_drained",
        "_holds",
        "_now",
        "_seal",
        "_sealed",
        "_transport",
        "_waiting",
        "_watched_by",
        "since",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        holds: set[Hold],
        *,
        now: Callable[[], float],
        drained: Callable[[], None],
        broken: Callable[[], None],
        seal: Seal | None = None,
    ) -> None:
        self._transport = transport
        self._holds = holds
        self._now = now
        self._drained = drained
        self._broken = broken
        self._seal = seal
        self._sealed: deque[Data] = deque()
        self._waiting: deque[Piece] = deque()
        self._watched_by: WritableSockets | None = None
        self.since: float | None = None
        plain = transport.get_extra_info("socket")
        self._direct = None if plain is None else _TransportSocket(fileno=plain.fileno())

    def use_congestion_control(self, name: str) -> None:
        """Between two processes of one machine, use this congestion control (`headrace.loopback.congestion.control`).

        One that paces (BBR) sets a timer for each packet, and settles on a fraction of the speed for as long as a connection lives, by chance.
        """
        option, direct = getattr(socket, "TCP_CONGESTION", None), self._direct
        try:
            if option is not None and direct is not None and direct.getpeername()[0] == direct.getsockname()[0]:
                direct.setsockopt(socket.IPPROTO_TCP, option, name.encode())
        except OSError:
            return  # it is only about speed

    def send(self, pieces: list[Piece]) -> None:
        """Send the pieces in order, behind what waits."""
        waiting, direct = self._waiting, self._direct
        if waiting or direct is None or self._seal is not None or Hold.OUTPUT in self._holds:
            waiting.extend(pieces)
            self.send_waiting()
            return
        if len(pieces) > _FEW_PIECES and memoryview in map(type, pieces):  # those of a long answer
            waiting.extend(pieces)
            self._send_directly()
            return
        if len(pieces) > 1 and not isinstance(pieces[1], _DATA):  # the answer of a fetch
            self._send_around(direct, pieces)
            return
        try:
            data = b"".join(pieces)  # type: ignore[arg-type] # fails when there is a slice of a file behind others
        except TypeError:
            self._send_around(direct, pieces)
            return
        try:
            done = direct.send(data)
        except OSError:
            done = 0
        if done < len(data):
            waiting.append(memoryview(data)[done:])
            self._send_directly()

    def _send_around(self, direct: socket.socket, pieces: list[Piece]) -> None:
        """The same with slices of files among them: in one packet, or copied together, where that is quick."""
        left = _send_one(direct, pieces) if len(pieces) == 2 else None
        if left is None:
            left = _send_copied(direct, pieces)
        if left:
            self._waiting.extend(left)
            self._send_directly()

    @property
    def is_idle(self) -> bool:
        """Whether the socket has taken everything."""
        return not (self._waiting or self._sealed)

    def send_sealed(self, records: bytes) -> None:
        """Send records that TLS made by itself (a handshake, an alert), behind those that are on their way."""
        self._sealed.append(records)
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send what can be sent now."""
        if Hold.OUTPUT in self._holds or Hold.DISK in self._holds:
            return
        if self._direct is None:
            self._write_to_transport()
        else:
            self._send_directly()

    # --- straight to the socket ---

    def _send_directly(self) -> None:
        """Give the kernel what it takes, and go on when it takes more."""
        direct = self._direct
        assert direct is not None, "only used while there is one"
        try:
            if self._seal is None:
                _send_pieces(direct, self._waiting)
            else:
                self._send_sealed(direct, self._seal)
        except BlockingIOError:
            self._watch(direct)
        except ColdSlice as cold:
            self._fetch(cold.rest)
        except Unreadable:
            self._broken()
        except ConnectionError:
            self.drop()  # what waits may be gigabytes in files, and nobody is there to read them
            self._transport.abort()
        except OSError:
            self._leave_direct()  # the transport meets the same error, and says what becomes of the connection
            self._write_to_transport()

    def _send_sealed(self, direct: socket.socket, seal: Seal) -> None:
        """The same through TLS: what was sealed goes first, and no more is sealed than the socket takes."""
        sealed, waiting = self._sealed, self._waiting
        for _ in range(_SEALED_A_TURN):
            while sealed:
                done = direct.send(sealed[0])
                if done < len(sealed[0]):
                    sealed[0] = memoryview(sealed[0])[done:]
                else:
                    sealed.popleft()
            if not waiting or not seal.is_open:
                return
            sealed.append(seal.seal(_take_part(waiting)))
        raise BlockingIOError

    def _watch(self, direct: socket.socket) -> None:
        """Go on when the socket is writable. A loop watches no descriptor of a transport, so another watcher does."""
        self.since = self._now()
        if self._watched_by is not None:
            return
        try:
            watcher = writable_sockets()
            watcher.watch(direct.fileno(), self._writable)
        except OSError:
            self.since = None
            self._leave_direct()
            self._write_to_transport()
            return
        self._watched_by = watcher
        self._holds.add(Hold.OUTPUT)

    def _writable(self) -> None:
        self._send_directly()
        if self._watched_by is not None and (Hold.DISK in self._holds or not (self._waiting or self._sealed)):
            self._unwatch()
        is_free = not (self._waiting or self._sealed or self._holds & {Hold.DISK, Hold.OUTPUT})
        if is_free and not self._transport.is_closing():
            self._drained()

    def _unwatch(self) -> None:
        self._holds.discard(Hold.OUTPUT)
        self.since = None
        watched_by, self._watched_by = self._watched_by, None
        if watched_by is not None and self._direct is not None:
            watched_by.forget(self._direct.fileno())

    def _leave_direct(self) -> None:
        self._unwatch()
        direct, self._direct = self._direct, None
        if direct is not None:
            direct.detach()

    # --- bytes that are not in the page cache ---

    def _fetch(self, rest: SliceRest) -> None:
        """Have a thread wait for the disk; then go on."""
        self._holds.add(Hold.DISK)
        fetching = asyncio.get_running_loop().run_in_executor(None, rest.fetch)
        fetching.add_done_callback(lambda done: self._fetched(rest, done))

    def _fetched(self, rest: SliceRest, fetching: asyncio.Future[bool]) -> None:
        """The bytes are there, or cannot be read; unless the connection has gone meanwhile."""
        self._holds.discard(Hold.DISK)
        if not self._waiting or self._waiting[0] is not rest or fetching.cancelled():
            return
        if not fetching.result():
            self._waiting.clear()
            self._broken()
            return
        rest.fetched()
        self.send_waiting()
        if not self._waiting and not self._sealed and not self._holds & {Hold.DISK, Hold.OUTPUT}:
            self._drained()

    # --- through the transport ---

    def transport_is_full(self) -> None:
        """The transport holds as much as it may."""
        self._holds.add(Hold.OUTPUT)
        self.since = self._now()

    def transport_has_room(self) -> None:
        """The transport takes bytes again."""
        self._holds.discard(Hold.OUTPUT)
        self.since = None
        self._write_to_transport()
        if Hold.OUTPUT not in self._holds:
            self._drained()

    def _write_to_transport(self) -> None:
        """Hand the transport what waits while it has room. File bytes are read a part at a time."""
        waiting, sealed, seal = self._waiting, self._sealed, self._seal
        try:
            while Hold.OUTPUT not in self._holds and not self._transport.is_closing():
                if sealed:
                    self._transport.write(sealed.popleft())
                elif not waiting or (seal is not None and not seal.is_open):
                    return
                else:
                    part = _take_part(waiting)
                    self._transport.write(part if seal is None else seal.seal(part))
        except ColdSlice as cold:
            self._fetch(cold.rest)
        except (Unreadable, OSError):
            waiting.clear()
            self._broken()

    # --- the end ---

    def finish(self) -> None:
        """The connection closes: the transport gets what is left, as far as it has room, and sends it before it closes."""
        self._leave_direct()
        if Hold.DISK in self._holds:
            self._waiting.clear()  # a connection that closes waits for no disk
        self._write_to_transport()
        if self._seal is not None and not self._waiting and (last := self._seal.close_notify()):
            self._transport.write(last)

    def drop(self) -> None:
        """Nothing more is sent."""
        self._waiting.clear()
        self._sealed.clear()
        self._leave_direct()


class _TransportSocket(socket.socket):
    """The transport's own socket, without a descriptor more: whoever borrowed it never closes it."""

    def __del__(self) -> None:
        self.detach()


def _send_one(direct: socket.socket, pieces: list[Piece]) -> list[Piece] | None:
    """Send an answer that ends with a slice of a file of which `sendfile` makes one packet, if that is in the page cache; what is left of it.

    None where this is no such answer: a short one, or one with more behind the slice, is copied for less.
    """
    first, part = pieces
    if type(first) is not bytes or isinstance(part, _DATA):
        return None
    size, position, file = part.size, part.position, part.file
    if size < _ONE_FROM_BYTES or position % _PAGE_BYTES + size > _PACKET_BYTES:
        return None
    is_cached = getattr(file, "is_cached", None)
    if is_cached is None or not is_cached(position, size):
        return pieces
    done = 0
    try:
        done = direct.send(first, socket.MSG_MORE)
        if done == len(first):
            done += os.sendfile(direct.fileno(), file.fd, position, size)  # type: ignore[union-attr] # it can say what is cached
    except OSError:
        return unsent(pieces, done)  # the way that takes long meets the same error, and says what it means
    return [] if done == len(first) + size else unsent(pieces, done)


def _send_copied(direct: socket.socket, pieces: list[Piece]) -> list[Piece]:
    """Send all of them by one call, if they are few bytes and in the page cache; what is left of them."""
    data = copied(pieces)
    if data is None:
        return pieces
    try:
        done = direct.send(data)
    except OSError:
        return pieces
    return [] if done == len(data) else unsent(pieces, done)


def _send_pieces(direct: socket.socket, waiting: deque[Piece]) -> None:
    """Send and remove what waits. Raises BlockingIOError when the kernel takes no more, or it was much for one turn, OSError, ColdSlice or Unreadable.

    Bytes before a slice of a file travel in one packet with it, and those behind it with its last one: a reader is woken once.
    """
    is_corked = False
    give_way_at = len(waiting) - _PIECES_A_TURN
    room = _BYTES_A_TURN
    try:
        while waiting:
            if len(waiting) < give_way_at or room < 0:
                raise BlockingIOError
            piece = _join_first(waiting)
            has_more = len(waiting) > 1
            if isinstance(piece, SliceRest):
                size = piece.look()
                if (has_more or size < piece.size) and not is_corked:
                    direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                    is_corked = True
                done = os.sendfile(direct.fileno(), piece.descriptor, piece.position, size)
                if not done:
                    raise Unreadable
                piece.advance(done)
                room -= done
                if piece.size:
                    continue
            else:
                done = direct.send(piece, socket.MSG_MORE if has_more else 0)
                room -= done
                if done < len(piece):
                    waiting[0] = memoryview(piece)[done:]
                    continue
            waiting.popleft()
    finally:
        if is_corked:
            direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def _join_first(waiting: deque[Piece]) -> Data | SliceRest:
    """The first piece, after the bytes and small slices at the front were made one. Raises ColdSlice, Unreadable."""
    parts: list[Data] = []
    room = _JOINED_BYTES
    while waiting and len(parts) < _JOINED_AT_ONCE and room > 0:
        piece = waiting[0]
        if isinstance(piece, _DATA):
            if parts and len(piece) > room:
                break
            parts.append(piece)
            room -= len(piece)
        else:
            if not isinstance(piece, SliceRest):
                piece = waiting[0] = SliceRest(piece)
            if piece.size > _COPY_UP_TO_BYTES and piece.descriptor >= 0:
                break
            try:
                parts.append(piece.take(PART_BYTES))
            except ColdSlice:
                if parts:
                    break
                raise
            if piece.size:
                break
        waiting.popleft()
    if parts:
        waiting.appendleft(parts[0] if len(parts) == 1 else b"".join(parts))
    first = waiting[0]
    assert isinstance(first, (*_DATA, SliceRest)), "slices are looked at above"
    return first


def _take_part(waiting: deque[Piece]) -> Data:
    """The next bytes, read from their file if they lie in one; not too many at once. Raises ColdSlice, Unreadable."""
    piece = _join_first(waiting)
    if isinstance(piece, SliceRest):
        part: Data = piece.take(_SEALED_AT_ONCE_BYTES)
        if not piece.size:
            waiting.popleft()
        return part
    if len(piece) <= _SEALED_AT_ONCE_BYTES:
        waiting.popleft()
        return piece
    waiting[0] = memoryview(piece)[_SEALED_AT_ONCE_BYTES:]
    return memoryview(piece)[:_SEALED_AT_ONCE_BYTES]
