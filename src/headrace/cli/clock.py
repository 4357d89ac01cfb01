"""What commands take from the machine: its clock, chance, and when the process began."""

from __future__ import annotations

import os
import time
from random import SystemRandom

RANDOM = SystemRandom()


def process_started_at() -> float:
    """When this process began, on the clock of `time.monotonic`, the interpreter's own start included; now where /proc is missing."""
    now = time.monotonic()
    try:
        with open("/proc/self/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return now
    return now - age if 0 <= age < 3600 else now


def date_line() -> str:
    """Now, as Java writes it into the comment of a properties file: `Sat Nov 21 13:25:21 UTC 2026`."""
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())


def wall_ms() -> int:
    """Milliseconds since 1970, as this machine has it."""
    return time.time_ns() // 1_000_000
