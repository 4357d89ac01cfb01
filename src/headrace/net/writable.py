"""Which sockets take bytes again: one selector for all that were full, beside the event loop's own.

The loop watches a transport's descriptor for reading, and lets nobody else watch it. A duplicate would cost each slow reader a second
descriptor, just when there may be few; a selector of our own, which the loop watches as one descriptor, costs one for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from selectors import EVENT_WRITE, DefaultSelector


class WritableSockets:
    """Calls back when a socket can be written. One for each event loop, for as long as any socket of it is full."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises OSError when the process may have no more descriptors."""
        self._loop = loop
        self._selector = DefaultSelector()
        loop.add_reader(self._selector.fileno(), self._look)

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the socket takes bytes, until `forget`."""
        self._selector.register(descriptor, EVENT_WRITE, callback)

    def forget(self, descriptor: int) -> None:
        """No more calls; to be said while the descriptor is still open."""
        self._selector.unregister(descriptor)
        if not self._selector.get_map():
            self._loop.remove_reader(self._selector.fileno())
            self._selector.close()
            _by_loop.pop(self._loop, None)

    def _look(self) -> None:
        for key, _ in self._selector.select(0):
            known = self._selector.get_map()
            if known and key.fd in known:  # who was called before may have ended this one's wait
                key.data()


_by_loop: dict[asyncio.AbstractEventLoop, WritableSockets] = {}


def writable_sockets() -> WritableSockets:
    """Those of the running loop. Raises OSError when the process may have no more descriptors."""
    loop = asyncio.get_running_loop()
    known = _by_loop.get(loop)
    if known is None:
        known = _by_loop[loop] = WritableSockets(loop)
    return known
