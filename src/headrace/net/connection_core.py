"""The core of every connection: bytes become whole frames, and pieces bytes. A hot file: what runs once a request is written for speed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import cast

from headrace.core.errors import DecodeError
from headrace.core.holds import Hold
from headrace.net.connection_shared import ConnectionShared
from headrace.net.file_slices import Piece
from headrace.net.output import Output
from headrace.net.ports import SendWatcher
from headrace.net.tls import TlsStage
from headrace.net.turn_shares import Took
from headrace.wire.framing import check_frame_length

_LENGTH = Struct(">i").unpack_from
_OWN_FROM_BYTES = 32 << 10
_OWN_ROOM_BYTES = 128 << 10
_EXACT_FROM_BYTES = 128 << 10
"""Of frames of this size and more as many are read at once as have room, if all are of one size, so that no bytes of the next one must be moved."""
_BEFORE_ITS_TURN_BYTES = 64
"""So much is read of a connection whose turn has not come: enough to see that it has begun a request, and uvloop reads in any case when `connection_made` is over."""
_MEMORY_ONLY = frozenset({Hold.MEMORY})
_TURN_ONLY = frozenset({Hold.TURN})


class ConnectionCore(asyncio.BufferedProtocol):
    """One connection. Driven by the event loop, or by the `TlsStage` before it; gives whole frames to `frame`, in order.

    Received bytes lie in the shared buffer while they can be used up at once, and in a buffer of the connection's own (`_own`, filled from `_pos` to
    `_end`) while a frame is incomplete or frames are held back. `frame` gets a view that is valid during the call, and says if others should have a turn
    before the next. While there is a reason in `holds` no frame is delivered (but see `Hold.MEMORY`) and the socket is not read. Pieces appended to
    `pieces` leave in order after the running `frame` call; outside of one, `flush` sends them. With a `stopwatch` it is known when a turn `began`.
    """

    def __init__(self, shared: ConnectionShared, *, tls: Callable[[ConnectionCore], TlsStage] | None = None) -> None:
        self._shared = shared
        self._pool = shared.pool
        self._shares = shared.shares
        self._transport, self._output = cast("asyncio.Transport", None), cast("Output", None)
        self._own: bytearray | None = None
        self._own_counted = self._pos = self._end = 0
        self._last_large = self._delivered = 0
        self._running = self._is_kept = self._is_flushed_soon = self._has_peer_ended = False
        self._first = b""
        self.tls = None if tls is None else tls(self)
        self.is_reading = True
        self.is_closed = False
        self.holds: set[Hold] = set()
        self.pieces: list[Piece] = []
        self.frame: Callable[[memoryview], bool] = lambda _: False  # before the owner said whom frames are for
        self.peer = "?"
        self.host = ""
        self.descriptor = -1
        self.frame_since: float | None = None
        self.frame_size = 0
        self.active_at = self.turn_began = 0.0
        self.stopwatch: Callable[[], float] | None = None
        self._awaited: list[SendWatcher] = []

    # --- what an accepted and a made connection do in their own ways ---

    def opened(self) -> None:
        """Connected; `frame` is to be set."""

    def refuse(self, reason: str) -> None:
        """What came is no frame, or no TLS: close."""
        raise NotImplementedError

    def failed(self, fault: Exception) -> None:
        """`frame` failed in a way that it should not: close."""
        raise NotImplementedError

    def lost(self, exc: Exception | None) -> None:
        """The connection is gone, however it went."""

    # --- the event loop's calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.host = str(name[0])
            self.peer = f"{name[0]}:{name[1]}"
        plain = transport.get_extra_info("socket")
        self.descriptor = -1 if plain is None else plain.fileno()
        shared = self._shared
        self._output = Output(
            self._transport, self.holds, now=shared.now, drained=self._drained, broken=self._unreadable, seal=self.tls
        )
        if shared.limits.loopback_congestion_control:
            self._output.use_congestion_control(shared.limits.loopback_congestion_control)
        self._transport.set_write_buffer_limits(high=shared.limits.max_unsent_bytes)
        self.active_at = shared.now()
        if self.tls is not None:
            self.frame_since = self.active_at
        self.opened()

    def get_buffer(self, sizehint: int) -> memoryview:
        own, end = self._own, self._end
        if own is None:
            if end:
                return self._pool.shared_view[end:]
            large, shares = self._last_large, self._shares
            if large:
                room = min(self._pool.size, shares.large_bytes)
                return self._pool.shared_view[: room // large * large or room]
            return self._pool.first_view if shares.is_whole else self._pool.shared_view[: shares.read_bytes]
        if end == len(own):
            self._grow()
            own, end = self._own, self._end
            assert own is not None, "growing keeps the buffer"
        large = 4 + self.frame_size
        if large <= _EXACT_FROM_BYTES:
            return memoryview(own)[end : end + max(self._shares.read_bytes, large)]
        room = len(own) - self._pos
        stop = self._pos + room // large * large if room >= large else end + large
        return memoryview(own)[end : min(stop, end + self._shares.large_bytes)]

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closed:
            return
        self._end += nbytes
        if not self._first:
            self._first = bytes((self._own or self._pool.shared)[: min(8, self._end)])
        own, large = self._own, self.frame_size
        is_full = own is not None and self._end == len(own)  # what was given: then the loop reads on at once
        self._deliver()
        shares = self._shares
        if is_full or nbytes >= shares.much_bytes:
            is_large = self._last_large or max(large, self.frame_size) >= _EXACT_FROM_BYTES
            self._leave_if(shares.took_large if is_large else shares.took_much)
        elif self._delivered >= shares.some_frames:
            self._leave_if(shares.took_frames)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._output.transport_is_full()

    def resume_writing(self) -> None:
        self._output.transport_has_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._output.drop()
        self.pieces.clear()
        self._awaited.clear()
        self._forget_rest()
        self.lost(exc)

    # --- the TLS stage's calls ---

    def send_records(self, records: bytes) -> None:
        """Send TLS's own records."""
        self._output.send_sealed(records)

    def handshake_done(self) -> None:
        """Plain bytes may be sent, and frames are awaited, from now on."""
        self.frame_since = None
        self._output.send_waiting()

    def peer_ended(self) -> None:
        """The peer sent close_notify: closed when it would be read again, as when a plain connection is closed by it."""
        self._has_peer_ended = True
        self._set_reading()

    def go_on_soon(self, go_on: Callable[[], None]) -> None:
        """More records came than are opened in one turn: the socket is not read until `go_on` was called."""
        if not self.is_closed:
            self.hold(Hold.RECORDS)
            self._set_reading()
            self._shared.soon(go_on)

    # --- the owner's calls ---

    def hold(self, reason: Hold) -> None:
        """Take no further frame while this reason lasts. Outside of `frame` the socket is left unread from the next bytes on."""
        self.holds.add(reason)

    def release(self, reason: Hold) -> None:
        """This reason is gone; frames that were held back are delivered, not from here, when it was the last."""
        self.holds.discard(reason)
        if self._running or self.is_closed:
            return
        if self._end > self._pos:
            self._shared.soon(self._deliver_more)  # not from here: replies may wake one another without end
        else:
            self._set_reading()

    def flush(self) -> None:
        """Send what is in `pieces`."""
        if self.pieces and not self._running and not self.is_closed:
            self._send()

    def flush_soon(self) -> None:
        """Send what is in `pieces` at the end of this turn, together with what comes until then: one system call for all."""
        if not self._is_flushed_soon:
            self._is_flushed_soon = True
            self._shared.soon(self._flush_of_turn)

    def when_sent(self, watcher: SendWatcher) -> None:
        """Tell it when what is in `pieces` leaves; at once when there is nothing."""
        self._awaited.append(watcher)
        if not self.pieces:
            watcher.sending()
            self._tell_sent()

    def _flush_of_turn(self) -> None:
        self._is_flushed_soon = False
        self.flush()

    def close_after_sending(self) -> None:
        """Close once what is in `pieces` and what waits is out, as far as the peer takes it."""
        if not self.is_closed:
            self.is_closed = True
            self.active_at = self._shared.now()
            if self.pieces:
                self._send()
            self._output.finish()
            self._transport.close()
            if not self._running:
                self._forget_rest()

    def close_at_once(self) -> None:
        """Close without sending anything more."""
        if not self.is_closed:
            self.is_closed = True
            self.active_at = self._shared.now()
        self.pieces.clear()
        self._output.drop()
        self._transport.abort()

    def keep_frame(self) -> None:
        """Called from `frame`: its view stays valid, because its buffer is not used again."""
        self._is_kept = True

    def read_again(self) -> None:
        """What may be read has changed: look again."""
        if not self.is_closed:
            self._set_reading()

    @property
    def output_since(self) -> float | None:
        """When the peer last took bytes that it is slow to take, in seconds on the loop's clock; None while nothing waits."""
        return self._output.since

    # --- pieces out ---

    def _send(self) -> None:
        pieces, self.pieces = self.pieces, []
        if self._awaited:
            for each in self._awaited:
                each.sending()
            self._output.send(pieces)
            if self._output.is_idle:
                self._tell_sent()
        else:
            self._output.send(pieces)

    def _tell_sent(self) -> None:
        self._awaited = [each for each in self._awaited if not each.sent()]

    def _drained(self) -> None:
        if self._awaited:
            self._tell_sent()
        if not self.is_closed:
            self._deliver_more()

    def _unreadable(self) -> None:
        self.pieces.clear()
        self._output.drop()
        self.refuse("stored bytes could not be read for an answer")
        self.close_at_once()

    # --- frames in ---

    def _deliver(self) -> None:
        """Give every whole frame to `frame`, until one must wait; keep what is left."""
        if self._running or self.is_closed:
            return
        self._running = True
        pool = self._pool
        buffer, view = (pool.shared, pool.shared_view) if (own := self._own) is None else (own, memoryview(own))
        try:
            wanted, is_out_of_turns = self._deliver_frames(buffer, view)
        except DecodeError as refused:
            self.refuse(str(refused))
            wanted, is_out_of_turns = 0, False
        except Exception as fault:  # noqa: BLE001 - the process's edge: a bug in a handler costs its connection only
            self.failed(fault)
            wanted, is_out_of_turns = 0, False
        finally:
            self._running = False
        if self.pieces:
            self._send()
        if self._is_kept:
            self._leave_buffer(buffer)
        if self._has_closed():
            self._forget_rest()
            return
        if self._pos == self._end:
            self._pos = self._end = self.frame_size = 0
            self._drop_buffer()
            self.frame_since = None
        else:
            self._keep_rest(buffer, wanted)
        shared = self._shared
        self.active_at = shared.turn_time
        shared.served()
        if self.holds or is_out_of_turns or not self.is_reading or shared.memory.limit >= 0:
            self._set_reading()
        if is_out_of_turns and self._end > self._pos:
            shared.soon(self._deliver_more)

    def _deliver_more(self) -> None:
        """The same, not because more bytes came."""
        self._delivered = 0
        self._deliver()
        if self._delivered >= self._shares.some_frames:
            self._leave_if(self._shares.took_frames)

    def _has_closed(self) -> bool:
        return self.is_closed

    def _is_held(self) -> bool:
        return self.holds != _MEMORY_ONLY

    def _deliver_frames(self, buffer: bytearray, view: memoryview) -> tuple[int, bool]:
        """Deliver the whole frames in `buffer`. Returns the size of the frame that is not whole, and if others must have a turn. Raises DecodeError."""
        if self.stopwatch is not None:
            self.turn_began = self.stopwatch()
        limits = self._shared.limits
        smallest, largest = limits.min_frame_bytes, limits.max_frame_bytes
        frame, holds = self.frame, self.holds
        for delivered in range(self._shares.frames):
            self._delivered, pos = delivered, self._pos
            if self._end - pos < 4 or (holds and self._is_held()) or self.is_closed:
                return 0, False
            (size,) = _LENGTH(buffer, pos)
            if not smallest <= size <= largest:
                check_frame_length(size, smallest=smallest, largest=largest)
            stop = pos + 4 + size
            if stop > self._end:
                return size, False
            self._pos = stop
            if self._own is not None:
                self._shared.memory.release(self)
                self.frame_since = None
            self._last_large = 4 + size if _EXACT_FROM_BYTES <= size < self._pool.size else 0
            if frame(view[pos + 4 : stop]):
                return 0, self._end > stop
        self._delivered += 1
        return 0, True

    def _keep_rest(self, buffer: bytearray, frame_size: int) -> None:
        """Bytes are left: keep them in a buffer of our own, without promising the frame's whole size in advance (B1)."""
        rest = self._end - self._pos
        if self._own is None:
            large = rest >= _OWN_FROM_BYTES and _LENGTH(buffer, self._pos)[0] >= _OWN_FROM_BYTES
            if large and self._pool.has_room and buffer is self._pool.shared:
                self._own = self._pool.take()
            else:
                came = self._end  # where much came more is to come
                self._own = bytearray(
                    max(4096, 2 * rest, min(max(came, min(4 * frame_size, 16 * rest)), _OWN_ROOM_BYTES))
                )
                self._move_to_start(self._own, buffer)
        elif self._pos >= len(self._own) // 2:
            self._move_to_start(self._own, buffer)
        self._count_own()
        if self.frame_since is None or self.frame_size != frame_size:
            self.frame_since = self._shared.turn_time
        self.frame_size = frame_size

    def _move_to_start(self, target: bytearray, source: bytearray) -> None:
        """What is left of `source` begins `target`, which may be the same."""
        rest = self._end - self._pos
        with memoryview(target) as to, memoryview(source) as left:
            to[:rest] = left[self._pos : self._end]
        self._pos, self._end = 0, rest

    def _grow(self) -> None:
        """The own buffer is full and its frame is not complete: move to its start, or double it up to the frame's size.

        It is counted when its bytes have come: a loop that asks for room must not be told to stop (uvloop then calls what is gone).
        """
        own = self._own
        assert own is not None, "only an own buffer grows"
        rest = self._end - self._pos
        if self._pos:
            self._move_to_start(own, own)
            return
        wanted = 4 + _LENGTH(own, 0)[0] if rest >= 4 else 8
        if _OWN_FROM_BYTES <= rest < wanted <= self._pool.size and self._pool.has_room:
            bigger = self._pool.spare()
        else:
            bigger = bytearray(max(min(wanted, 2 * len(own)), len(own) + 4096))
        bigger[:rest] = own
        self._own = bigger
        self._pool.give_back(own)

    def _leave_buffer(self, buffer: bytearray) -> None:
        """A frame in `buffer` is kept by its owner: go on in another one."""
        self._is_kept = False
        self._pool.leave(buffer)
        if self._own is not None:
            self._own = None
            self._count_own()
        if self._end > self._pos:
            self._own = bytearray(max(4096, 2 * (self._end - self._pos)))
            self._move_to_start(self._own, buffer)

    def _drop_buffer(self) -> None:
        if (own := self._own) is not None:
            self._own = None
            self._pool.give_back(own)
            self._count_own()

    def _forget_rest(self) -> None:
        """Nothing more is read: the memory is for others, however long the last answers stay with the peer."""
        self._pos = self._end = 0
        self._drop_buffer()
        self._shared.memory.forget(self)

    def _count_own(self) -> None:
        size = 0 if self._own is None else len(self._own)
        if size != self._own_counted:
            change, self._own_counted = size - self._own_counted, size
            self._shared.memory.changed(change)

    # --- when to read ---

    def _leave_if(self, took: Took) -> None:
        """In a crowd that asks for much, or when the turn is long, the rest is for the next one; the loop itself would read a socket up to 32 times in one."""
        shared = self._shared
        if took(shared.soon, self, self._delivered) and not self.is_closed and Hold.TURN not in self.holds:
            self.hold(Hold.TURN)
            self._set_reading()
            shared.soon(self._has_its_turn)

    def _has_its_turn(self) -> None:
        if self._lacks_room() and not self._shares.makes_room(self._shared.soon):
            self._shared.soon(self._has_its_turn)
            return
        self.holds.discard(Hold.TURN)
        if not self.is_closed:
            self._deliver_more()
            if self.is_reading and self._lacks_room():
                self._grow()  # by the turn's clock: a megabyte of memory takes up to two milliseconds

    def _lacks_room(self) -> bool:
        return self._own is not None and self._end == len(self._own) and not self._has_whole_frame()

    def _has_whole_frame(self) -> bool:
        own, rest = self._own, self._end - self._pos
        return own is not None and rest >= 4 and rest >= 4 + _LENGTH(own, self._pos)[0]

    def _set_reading(self) -> None:
        """Read only while there is something to do with what comes."""
        holds = self.holds
        holds.discard(Hold.MEMORY)
        may_read = not holds
        if may_read:
            has_begun = self._end > self._pos and not self._running  # what is behind a running request may be whole
            if not self._shared.memory.may_read(self, self.read_again, has_begun=has_begun):
                if has_begun or self._running:
                    holds.add(Hold.MEMORY)
                    may_read = False
                else:
                    self._read_little()  # else nobody knew that it has something to say, and it waited for others for ever
        elif holds != _TURN_ONLY:
            self._shared.memory.release(self)  # what it waits for may take long, and others are to be read
        may_read = may_read and not self._has_whole_frame()
        if may_read and self._has_peer_ended:
            self._transport.close()
        if may_read != self.is_reading and not self._transport.is_closing():
            self.is_reading = may_read
            if may_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _read_little(self) -> None:
        """Have the next bytes read into a buffer that hardly counts."""
        if self._own is None:
            self._own = bytearray(_BEFORE_ITS_TURN_BYTES)
            self._count_own()
