"""A Spark worker's memory: kept from going back to the system, and what is imported kept out of garbage collection.

Columns of a few megabytes are made and dropped for each batch. The C library's default is to return such blocks at once, and each new one costs a page
fault for every 4 KiB: half of the time in which a batch is decoded.

PySpark's daemon has every worker collect garbage after each task and each plan. That goes through all that PySpark and its modules consist of, some 45,000
objects that live as long as the process, and takes longer than a small task, which takes 3 ms.
"""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 << 20
"""So much freed memory a worker keeps at most beyond what it uses."""
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
"""What glibc takes at most."""
_KEPT_WORKER: Final = "SPARK_REUSE_WORKER"
"""What Spark sets for its Python processes unless `spark.python.worker.reuse` is false."""


@cache
def keep_freed_memory() -> None:
    """Have glibc keep up to `KEPT_BYTES` of freed memory in this process, from now on. Where there is no glibc, nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


@cache
def spare_imports() -> None:
    """Take what is loaded by now out of garbage collection for good, in a worker that Spark keeps from task to task. Elsewhere nothing happens."""
    if os.environ.get(_KEPT_WORKER):
        gc.freeze()
