"""Does a worker that makes and drops large columns keep their memory, and does it collect garbage without going through all that is imported?"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

_PROGRAM = """
import resource, sys
import numpy as np
from headrace.spark.worker_memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def churn():
    kept = [np.ones(1 << size, dtype=np.uint8) for size in range(12, 23)]
churn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    churn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_columns_are_used_again() -> None:
    """Twenty rounds of 8 MiB in columns cost next to no page faults; without glibc the call does nothing."""
    kept = _page_faults("keep")
    assert kept >= 0
    if platform.libc_ver()[0] == "glibc":
        assert kept < 1000 < 4 * _page_faults("default")


_IMPORTS = """
import gc
import pyspark.worker
from headrace.spark.source import HeadraceDataSource
HeadraceDataSource({}).schema()
print(len(gc.get_objects()))
"""


def _collected_objects(**environment: str) -> int:
    kept = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    command = [sys.executable, "-c", _IMPORTS]
    return int(subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=True).stdout)


def test_imports_are_no_garbage_in_a_worker_that_spark_keeps() -> None:
    """PySpark's daemon collects after every task; that must not cost a walk through all modules. A process of the user's own is left alone."""
    assert _collected_objects(SPARK_REUSE_WORKER="1") < 2000
    assert _collected_objects() > 20_000
