"""A Spark worker's memory, kept from going back to the system and being asked for again with every batch.

Columns of a few megabytes are made and dropped for each batch. The C library's default is to return such blocks at once, and each new one costs a page
fault for every 4 KiB: half of the time in which a batch is decoded.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 << 20
"""So much freed memory a worker keeps at most beyond what it uses."""
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
"""What glibc takes at most."""


@cache
def keep_freed_memory() -> None:
    """Have glibc keep up to `KEPT_BYTES` of freed memory in this process, from now on. Where there is no glibc, nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
