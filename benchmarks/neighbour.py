"""A neighbour that copies memory all the time: what is left of the machine's memory bandwidth is what a broker has.

``python -m benchmarks.neighbour SECONDS``; it ends by itself, and with the process that started it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

BLOCK_BYTES = 64 << 20
"""More than a processor's caches hold, twice."""


def main(arguments: Sequence[str]) -> None:
    """Copy one block onto another until the time is over."""
    ends_at = time.monotonic() + float(arguments[0])
    started_by = os.getppid()
    source, target = memoryview(bytearray(b"x") * BLOCK_BYTES), memoryview(bytearray(BLOCK_BYTES))
    while time.monotonic() < ends_at and os.getppid() == started_by:
        target[:] = source


if __name__ == "__main__":
    main(sys.argv[1:])
