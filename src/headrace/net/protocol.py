"""How do bytes on a socket become whole requests, and replies become bytes, at the least cost?

This is a hot file: what runs once a request is written for speed (see `benchmarks/wire`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Protocol, cast

from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.closed_log import ClosedConnectionLog
from headrace.net.hints import hint_for
from headrace.net.limits import ConnectionLimits
from headrace.net.output import Output, Piece
from headrace.net.ports import FrameHandler
from headrace.net.spinning import Spinner

_LENGTH = Struct(">i").unpack_from
_MIN_FRAME_BYTES = 8
_OWN_FROM_BYTES = 32 << 10
_OWN_ROOM_BYTES = 128 << 10
_FRAMES_A_TURN = 512
_BEFORE_ITS_TURN_BYTES = 64
"""So much is read of a connection whose turn has not come: enough to see that it has begun a request, and uvloop reads in any case when `connection_made` is over."""


class ConnectionHub(Protocol):
    """What a connection needs of its listener; `headrace.net.listener.Listener` is the real one.

    `turn_time` is the loop's clock in seconds, as coarse as the listener's sweeps.
    """

    name: str
    limits: ConnectionLimits
    pool: BufferPool
    memory: RequestMemory
    closed_log: ClosedConnectionLog
    turn_time: float
    spinner: Spinner

    def now(self) -> float:
        """Seconds on the loop's clock."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Let others have their turn first."""

    def later(self, wait_s: float, callback: Callable[[], None]) -> None:
        """Call back after a while."""

    def creation_wait_s(self) -> float:
        """How long a new connection must wait (`max.connection.creation.rate`)."""

    def admit(self, connection: ServerConnection) -> str | None:
        """Count a new connection; or the reason why it is refused."""

    def gone(self, connection: ServerConnection) -> None:
        """A counted connection ended."""

    def report_bug(self, connection: ServerConnection, fault: Exception) -> None:
        """A handler failed in a way that it should not."""

    def handler_for(self, connection: ServerConnection) -> FrameHandler:
        """The request side of a new connection."""


class ServerConnection(asyncio.BufferedProtocol):
    """One accepted connection. Driven by the event loop; gives whole frames to its `FrameHandler`, in order.

    Received bytes lie in the listener's shared buffer while they can be used up at once, and in a buffer of the connection's own
    (`_own`, filled from `_pos` to `_end`) while a frame is incomplete or frames are held back.
    """

    def __init__(self, listener: ConnectionHub) -> None:
        self._listener = listener
        self._pool = listener.pool
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._handler: FrameHandler = cast("FrameHandler", None)
        self._own: bytearray | None = None
        self._own_counted = 0
        self._pos = 0
        self._end = 0
        self._running = False
        self.is_reading = True
        self._counted = False
        self._output: Output = cast("Output", None)
        self._first = b""
        self.pieces: list[Piece] = []
        self.held = False
        self.is_closed = False
        self.peer = "?"
        self.host = ""
        self.frame_since: float | None = None
        self.frame_size = 0
        self.active_at = 0.0

    # --- the event loop's calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.host = str(name[0])
            self.peer = f"{name[0]}:{name[1]}"
        self._output = Output(self._transport, now=self._listener.now, drained=self._drained, broken=self._unreadable)
        refusal = self._listener.admit(self)
        if refusal is not None:
            self.close(refusal)
            return
        self._counted = True
        self._transport.set_write_buffer_limits(high=self._listener.limits.max_unsent_bytes)
        self.active_at = self._listener.now()
        self._handler = self._listener.handler_for(self)
        wait_s = self._listener.creation_wait_s()
        if wait_s > 0:
            self.held = True
            self._listener.later(wait_s, self.resume)
        if wait_s > 0 or self._listener.memory.is_exhausted:
            self._read_little()
            self._listener.soon(self.read_again)

    def get_buffer(self, sizehint: int) -> memoryview:
        own = self._own
        if own is None:
            return self._pool.shared_view
        if self._end == len(own):
            self._grow()
            own = self._own
            assert own is not None, "growing keeps the buffer"
        return memoryview(own)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if not self._first:
            buffer = self._own if self._own is not None else self._pool.shared
            self._first = bytes(buffer[: min(8, self._end)])
        self._deliver()

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
        self._drop_buffer()
        self._listener.memory.forget(self)
        if self._counted:
            self._counted = False
            self._listener.gone(self)
        if self._handler is not None:
            self._handler.closed()

    # --- the handler's calls (ConnectionOut) ---

    def flush(self) -> None:
        if self.pieces and not self._running and not self.is_closed:
            self._send()

    def resume(self) -> None:
        self.held = False
        if self._running or self.is_closed:
            return
        if self._end > self._pos:
            self._listener.soon(self._deliver)  # not from here: replies may wake one another without end
        else:
            self._set_reading()

    def close(self, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.active_at = self._listener.now()
        hint = hint_for(self._first)
        self._listener.closed_log.closed(listener=self._listener.name, peer=self.peer, reason=reason, hint=hint)
        if self.pieces:
            self._send()
        self._output.finish()
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Close without waiting for unsent output."""
        if not self.is_closed:
            self.pieces.clear()
            self._output.drop()
            self.close(reason)
        self._transport.abort()

    def shut(self) -> None:
        """The node stops: send what is ready and close, without a line in the log."""
        if not self.is_closed:
            self.is_closed = True
            self.active_at = self._listener.now()
            if self.pieces:
                self._send()
            self._output.finish()
            self._transport.close()

    @property
    def output_since(self) -> float | None:
        """When the peer last took bytes that it is slow to take, in seconds on the loop's clock; None while nothing waits."""
        return self._output.since

    def _send(self) -> None:
        pieces, self.pieces = self.pieces, []
        self._output.send(pieces)

    def _drained(self) -> None:
        if not self.is_closed:
            self._deliver()

    def _unreadable(self) -> None:
        self.abort("stored bytes could not be read for an answer")

    # --- frames in ---

    def _deliver(self) -> None:
        """Give every whole frame to the handler, until one must wait; keep what is left."""
        if self._running or self.is_closed:
            return
        self._running = True
        try:
            wanted, is_out_of_turns = self._hand_out(self._pool.shared if self._own is None else self._own)
        except Exception as fault:  # noqa: BLE001 - the process's edge: a bug in a handler costs its connection only
            self._listener.report_bug(self, fault)
            wanted, is_out_of_turns = 0, False
        finally:
            self._running = False
        if self.pieces:
            self._send()
        if self._has_closed():
            return
        if self._pos == self._end:
            self._pos = self._end = 0
            self._drop_buffer()
            self.frame_since = None
        else:
            self._keep_rest(wanted)
        listener = self._listener
        self.active_at = listener.turn_time
        listener.spinner.served()
        if self.held or is_out_of_turns or not self.is_reading or self._output.is_full or listener.memory.limit >= 0:
            self._set_reading()
        if is_out_of_turns and self._end > self._pos:
            self._listener.soon(self._deliver)

    def _has_closed(self) -> bool:
        return self.is_closed

    def _hand_out(self, buffer: bytearray) -> tuple[int, bool]:
        """Deliver the whole frames in `buffer`. Returns the size of the frame that is not whole, and if others must have a turn."""
        max_frame = self._listener.limits.max_frame_bytes
        frame = self._handler.frame
        if self._output.is_full:
            return 0, False
        view = memoryview(buffer)
        for _ in range(_FRAMES_A_TURN):
            pos = self._pos
            if self._end - pos < 4 or self.held or self.is_closed:
                return 0, False
            (size,) = _LENGTH(buffer, pos)
            if size < _MIN_FRAME_BYTES or size > max_frame:
                self.close(f"a request of {size} bytes; between {_MIN_FRAME_BYTES} and {max_frame} are allowed")
                return 0, False
            stop = pos + 4 + size
            if stop > self._end:
                return size, False
            self._pos = stop
            if self._own is not None:
                self._listener.memory.release(self)
                self.frame_since = None
            if frame(view[pos + 4 : stop]):
                return 0, self._end > stop
        return 0, True

    def _keep_rest(self, frame_size: int) -> None:
        """Bytes are left: keep them in a buffer of our own, without promising the frame's whole size in advance (B1)."""
        rest = self._end - self._pos
        if self._own is None:
            if rest >= _OWN_FROM_BYTES and self._pool.has_room:
                self._own = self._pool.take()
            else:
                self._own = bytearray(max(4096, 2 * rest, min(4 * frame_size, 16 * rest, _OWN_ROOM_BYTES)))
                self._own[:rest] = self._pool.shared_view[self._pos : self._end]
                self._pos, self._end = 0, rest
        elif self._pos >= len(self._own) // 2:
            self._own[:rest] = self._own[self._pos : self._end]
            self._pos, self._end = 0, rest
        self._count_own()
        if self.frame_since is None or self.frame_size != frame_size:
            self.frame_since = self._listener.turn_time
            self.frame_size = frame_size

    def _grow(self) -> None:
        """The own buffer is full and its frame is not complete: move to its start, or double it up to the frame's size.

        It is counted when its bytes have come: a loop that asks for room must not be told to stop (uvloop then calls what is gone).
        """
        own = self._own
        assert own is not None, "only an own buffer grows"
        rest = self._end - self._pos
        if self._pos:
            own[:rest] = own[self._pos : self._end]
        else:
            wanted = 4 + _LENGTH(own, 0)[0] if rest >= 4 else 8
            if _OWN_FROM_BYTES <= rest < wanted <= self._pool.size and self._pool.has_room:
                bigger = self._pool.spare()
            else:
                bigger = bytearray(max(min(wanted, 2 * len(own)), len(own) + 4096))
            bigger[:rest] = own
            self._own = bigger
            self._pool.give_back(own)
        self._pos, self._end = 0, rest

    def _drop_buffer(self) -> None:
        own = self._own
        if own is not None:
            self._own = None
            self._pool.give_back(own)
            self._count_own()

    def _count_own(self) -> None:
        size = 0 if self._own is None else len(self._own)
        if size != self._own_counted:
            change, self._own_counted = size - self._own_counted, size
            self._listener.memory.changed(change)

    def _set_reading(self) -> None:
        """Read only while there is something to do with what comes."""
        may_read = not (self.held or self._output.is_full)
        if may_read:
            has_begun = self._end > self._pos
            may_read = self._listener.memory.may_read(self, self.read_again, has_begun=has_begun)
            if not may_read and not has_begun and not self._running:
                self._read_little()  # else nobody knew that it has something to say, and it waited for others for ever
                may_read = True
        if may_read and self._end - self._pos >= 4 and self._own is not None:
            size = _LENGTH(self._own, self._pos)[0]
            may_read = self._end - self._pos < 4 + size
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

    def read_again(self) -> None:
        """What may be read has changed: look again."""
        if not self.is_closed:
            self._set_reading()
