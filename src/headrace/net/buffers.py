"""Receive buffers, and how many of them may be held at once."""

from __future__ import annotations

from collections.abc import Callable

from headrace.net.turn_shares import MOST_BYTES

SHARED_BYTES = 2 << 20
_SPARE_BUFFERS = 4
_MOST_LENT = 32
"""So many large buffers are lent at once; beyond that a connection's buffer follows the bytes that came (S96: 64 MiB)."""


class BufferPool:
    """One buffer that all connections receive into, and a few spares for those that had to keep it.

    A connection whose bytes were all used leaves the shared buffer to the next one. A connection that is left with a large part of a
    frame takes the buffer away (`take`) and gives it back when the frame is done (`give_back`): then it is the shared one again, because its
    memory is still in the processor's cache.
    """

    def __init__(self, size: int = SHARED_BYTES) -> None:
        self.size = size
        self._spare: list[bytearray] = []
        self._lent: set[int] = set()
        self._share(bytearray(size))

    def _share(self, buffer: bytearray) -> None:
        self.shared = buffer
        self.shared_view = memoryview(buffer)
        self.first_view = self.shared_view[:MOST_BYTES]

    @property
    def has_room(self) -> bool:
        """Whether another large buffer may be lent."""
        return len(self._lent) < _MOST_LENT

    def take(self) -> bytearray:
        """The shared buffer with what was just received in it; another one takes its place."""
        taken = self.shared
        self._share(self._another())
        self._lent.add(id(taken))
        return taken

    def leave(self, buffer: bytearray) -> None:
        """Somebody keeps a buffer of the pool for good: it is no longer the pool's."""
        if buffer is self.shared:
            self._share(self._another())
        self._lent.discard(id(buffer))

    def spare(self) -> bytearray:
        """A buffer of the shared one's size for a large frame of which a good part has arrived."""
        spare = self._another()
        self._lent.add(id(spare))
        return spare

    def _another(self) -> bytearray:
        return self._spare.pop() if self._spare else bytearray(self.size)

    def give_back(self, buffer: bytearray) -> None:
        """A buffer that is not needed any more; if it came from here the next bytes are received into it, and the other is kept when spares are few."""
        if id(buffer) not in self._lent:
            return
        self._lent.remove(id(buffer))
        if len(self._spare) < _SPARE_BUFFERS:
            self._spare.append(self.shared)
        self._share(buffer)


class RequestMemory:
    """Counts the bytes of the buffers that connections hold for unfinished or waiting requests (`queued.max.request.bytes`, M1).

    At the limit no socket is read but that of one connection with a begun frame, which holds the *pass* until its frame is whole (and of the others
    the few bytes that show that a frame has begun); so what is held stays below the limit and one frame's buffer, and the pass goes round in the order in which connections were stopped: none starves.
    """

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        self.held = 0
        self.on_exhausted: list[Callable[[], None]] = []
        self._waiting: dict[object, Callable[[], None]] = {}
        self._begun: dict[object, None] = {}
        self._pass: object | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether requests must wait in their sockets."""
        return self.limit >= 0 and self.held >= self.limit

    def may_read(self, reader: object, resume: Callable[[], None], *, has_begun: bool) -> bool:
        """Whether `reader` may read on; if not, `resume` is called once it should ask again."""
        if not self.is_exhausted or self._pass is reader:
            return True
        if self._pass is None and has_begun:
            self._pass = reader
            self._forget(reader)
            return True
        self._waiting.setdefault(reader, resume)
        if has_begun:
            self._begun.setdefault(reader)
        else:
            self._begun.pop(reader, None)
        return False

    def changed(self, by: int) -> None:
        """A connection holds `by` bytes more (or fewer, when negative)."""
        was_exhausted = self.is_exhausted
        self.held += by
        if self.is_exhausted:
            if not was_exhausted:
                for stop_readers in self.on_exhausted:
                    stop_readers()
        elif was_exhausted:
            self._pass = None
            waiting, self._waiting, self._begun = self._waiting, {}, {}
            for resume in waiting.values():
                resume()

    def release(self, reader: object) -> None:
        """A frame of `reader` is whole, or the connection is gone: the pass goes on."""
        if self._pass is reader:
            self._pass = None
            self._pass_on()

    def forget(self, reader: object) -> None:
        """The connection is gone."""
        self._forget(reader)
        self.release(reader)

    def _forget(self, reader: object) -> None:
        self._waiting.pop(reader, None)
        self._begun.pop(reader, None)

    def _pass_on(self) -> None:
        """Have those with a begun frame ask again, the first stopped first, until one has the pass: to ask all of thousands takes milliseconds."""
        while self._begun and self._pass is None and self.is_exhausted:
            reader = next(iter(self._begun))
            resume = self._waiting[reader]
            self._forget(reader)
            resume()
