"""How much slower a core is just now than one of the machine for which bounds of CPU time are stated.

The cores of a shared machine are at times half as fast as a second before, so it is asked where and while the work is done that is held against a bound.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections import deque
from contextlib import closing
from typing import Final

PROBE_MS: Final = 0.23
"""What one probe takes of a core of the machine of the bounds: 0.2 ms in the interpreter, the rest in the kernel."""
PROBES: Final = 5


class Slowness:
    """Some of what an interpreter and a kernel do for a node all the time, timed again and again. One belongs to one thread."""

    def __init__(self) -> None:
        self._one, self._other = socket.socketpair()
        self._taken_ms: deque[float] = deque(maxlen=PROBES)

    def close(self) -> None:
        """Nothing is timed afterwards."""
        self._one.close()
        self._other.close()

    def probe(self) -> float:
        """Work once; how slow the median of the latest probes was, at least 1, and 1 before there are `PROBES`."""
        self._work()  # what is not in the core's cache would count as slowness
        self._taken_ms.append(self._timed_ms())
        if len(self._taken_ms) < PROBES:
            return 1.0
        return max(1.0, statistics.median(self._taken_ms) / PROBE_MS)

    def just_now(self) -> float:
        """The same by three works in succession, of which the quickest counts: a core may be slow for so short that no median tells."""
        self._work()
        return max(1.0, min(self._timed_ms() for _ in range(3)) / PROBE_MS)

    def _timed_ms(self) -> float:
        began = time.thread_time()
        self._work()
        return (time.thread_time() - began) * 1000

    def _work(self) -> None:
        found: dict[int, tuple[int, str]] = {}
        for number in range(500):
            found[number] = (number, f"topic-{number}")
        for _ in range(8):
            self._one.send(b"x" * 100)
            self._other.recv(100)


def slowness() -> float:
    """The same of this thread's core, just now."""
    with closing(Slowness()) as found:
        return max(found.probe() for _ in range(3 * PROBES))
