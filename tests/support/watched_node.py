"""A node that is watched while it is attacked: how much CPU its event loop spends between two looks at a timer. A program.

    python watched_node.py WATCH_FILE DESCRIPTORS -m headrace start server.properties

The arguments from `-m` on are what `python` would get. WATCH_FILE gets the figures of `tests.support.attacks.Watch`. DESCRIPTORS is the limit
of open files, 0 for the machine's own; a negative one is only the soft limit.
"""

from __future__ import annotations

import asyncio
import mmap
import resource
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.slowness import Slowness

FIGURES = struct.Struct("=ddddd")
"""Looks taken, the most CPU seconds of the loop's thread between two looks, the same of the whole process, the longest wall time, and how slow the core was at worst."""
LOOK_S = 0.002
LONG_S = 0.02
"""After a turn of so much CPU it is asked at once how slow the core is."""
PROBE_S = 0.02


class Looking:
    """Looks at the clocks as often as the loop lets it. What lies between two looks is `LOOK_S` of other work, and one turn that may have been long.

    CPU time does not grow while other processes have the machine, so the figures are the node's own fault.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, figures: mmap.mmap) -> None:
        self._loop = loop
        self._figures = figures
        self._last = (0.0, 0.0, 0.0)
        self._slowness = Slowness()
        self._probe_at = 0.0

    def begin(self) -> None:
        """The first look."""
        self._last = _clocks()
        self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        now = _clocks()
        turn = [new - last for new, last in zip(now, self._last, strict=True)]
        probed = 1.0
        if turn[0] > LONG_S:
            probed = self._slowness.just_now()
            now = _clocks()
        if now[2] >= self._probe_at:
            probed = max(probed, self._slowness.probe())
            now = _clocks()
            self._probe_at = now[2] + PROBE_S
        looks, *most, slow = FIGURES.unpack(self._figures[:])
        # In one piece: `pack_into` fills with zeros first and writes byte by byte, and the process that reads may see that.
        self._figures[:] = FIGURES.pack(looks + 1, *map(max, most, turn), max(slow, probed))
        self._last = now
        self._loop.call_later(LOOK_S, self._look)


def _clocks() -> tuple[float, float, float]:
    return time.thread_time(), time.process_time(), time.monotonic()


def main() -> None:
    """Run the node's command line with a loop that is watched."""
    from headrace.cli.main import main as headrace
    from headrace.server import run

    _, path, descriptors, *command = sys.argv
    if int(descriptors):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = abs(int(descriptors))
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit if int(descriptors) > 0 else hard))
    with Path(path).open("r+b") as file:
        figures = mmap.mmap(file.fileno(), FIGURES.size)
    make = run.new_event_loop

    def watched() -> asyncio.AbstractEventLoop:
        loop = make()
        loop.call_soon(Looking(loop, figures).begin)
        return loop

    run.new_event_loop = watched
    headrace(command[2:])


if __name__ == "__main__":
    main()
