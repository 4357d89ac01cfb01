"""A new Spark session that reads one topic through one source: how long until the first batch, and how much memory after ten reads?

A program of its own, because Java compiles and keeps what it did before: ``python -m benchmarks.spark.fresh headrace|kafka BOOTSTRAP TOPIC`` prints JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from headrace.spark.session import fork_server_pid, local_session, stop_session
from tests.peers import spark_connector

READS: Final = 10


def python_processes(java_pid: int) -> list[psutil.Process]:
    """All that Java has started, and the process that Python workers are forked of with all that it has forked."""
    found: list[psutil.Process] = psutil.Process(java_pid).children(recursive=True)
    server = fork_server_pid()
    if server is not None:
        found += [psutil.Process(server), *psutil.Process(server).children(recursive=True)]
    return found


def cpu_seconds(java_pid: int) -> float:
    """CPU used so far by Spark's Java process and its Python workers, those that have ended among them."""
    total = 0.0
    for process in (psutil.Process(java_pid), *python_processes(java_pid)):
        with suppress(psutil.Error):  # it has just ended, and is among its parent's children from now on
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def own_cpu_seconds(java_pid: int) -> float:
    """The part of Java alone."""
    times = psutil.Process(java_pid).cpu_times()
    return float(times.user + times.system)


def peak_mb(pid: int) -> float:
    """The most resident memory that a process has had, in MB."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def measure(source: str, bootstrap: str, topic: str) -> dict[str, float]:
    """Figures by name; seconds, core-seconds, MB."""
    scratch = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir="/dev/shm"))
    config = {"spark.driver.extraClassPath": spark_connector.class_path()}
    spark = local_session("bench-fresh", master="local[2]", config=config, log_path=scratch / "spark.log")
    java_pid = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - the one way to the Java process
    figures: dict[str, float] = {}

    def took(name: str, work: Callable[[], object]) -> None:
        cpu, before = cpu_seconds(java_pid), time.monotonic()
        work()
        figures[f"{name} s"] = time.monotonic() - before
        figures[f"{name} CPU s"] = cpu_seconds(java_pid) - cpu

    try:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        took("first batch", lambda: spark.read.format(source).options(**options).load().limit(10).collect())
        took("first micro-batch", lambda: _stream(spark, source, options, scratch))
        for _ in range(READS):
            spark.read.format(source).options(**options).load().write.format("noop").mode("overwrite").save()
        workers = [peak_mb(each.pid) for each in python_processes(java_pid)]
        figures["Java MB"] = peak_mb(java_pid)
        figures["largest Python worker MB"] = max(workers, default=0.0)
    finally:
        stop_session(spark)
        shutil.rmtree(scratch, ignore_errors=True)
    return figures


def _stream(spark: Any, source: str, options: dict[str, str], scratch: Path) -> None:
    reader = spark.readStream.format(source).options(**options, maxOffsetsPerTrigger="10000")
    writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(scratch / "checkpoint"))
    query = writer.start()
    try:
        while query.lastProgress is None:
            if query.exception() is not None:
                raise SystemExit(str(query.exception()))
            time.sleep(0.02)
    finally:
        query.stop()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(*sys.argv[1:])) + "\n")
