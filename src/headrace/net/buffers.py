"""Where do received bytes lie, and how many of them may be held at once?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

SHARED_BYTES = 2 << 20
_SPARE_BUFFERS = 4


class BufferPool:
    """One buffer that all connections receive into, and a few spares for those that had to keep it.

    A connection whose bytes were all used leaves the shared buffer to the next one. A connection that is left with a large part of a
    frame takes the buffer away (`take`) and gives it back when the frame is done (`give_back`).
    """

    def __init__(self, size: int = SHARED_BYTES) -> None:
        self.size = size
        self._spare: list[bytearray] = []
        self.shared = bytearray(size)
        self.shared_view = memoryview(self.shared)

    def take(self) -> bytearray:
        """The shared buffer with what was just received in it; another one takes its place."""
        taken = self.shared
        self.shared = self._spare.pop() if self._spare else bytearray(self.size)
        self.shared_view = memoryview(self.shared)
        return taken

    def give_back(self, buffer: bytearray) -> None:
        """A buffer that is not needed any more; it is kept when it has the shared one's size and spares are few."""
        if len(buffer) == self.size and len(self._spare) < _SPARE_BUFFERS:
            self._spare.append(buffer)


class RequestMemory:
    """Counts the bytes that connections hold for unfinished or waiting requests (`queued.max.request.bytes`, M1).

    Above the limit no connection reads but those that hold a begun frame; when bytes are given back, waiting connections go on in
    the order in which they were stopped, so none starves.
    """

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_exhausted(self) -> bool:
        """Whether new requests must wait in their sockets."""
        return self.limit >= 0 and self.held >= self.limit

    def changed(self, by: int) -> None:
        """A connection holds `by` bytes more (or fewer, when negative)."""
        self.held += by
        while self._waiting and not self.is_exhausted:
            self._waiting.popleft()()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` once there is room again."""
        self._waiting.append(resume)
