"""How fast does Spark read and write topics through our source, beside Spark's own connector? Rows a second and CPU seconds a row.

``make bench-spark``, or ``python -m benchmarks.spark.run [--rounds 5] [--warm-up 8] [--rows 2000000] [--broker headrace|kafka]``. One Spark session,
both sources in turn against one broker, rounds warm: the first ones do not count, because Java compiles meanwhile (a third and more of all CPU time in
the first five rounds, for both sources). CPU seconds are those of Spark's Java process and all its Python workers. The result goes to ``benchmarks/results/`` with the commit and the versions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from confluent_kafka.admin import NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.run import RESULTS, machine
from benchmarks.spark import connector
from headrace.arrow.batch_settings import BatchSettings
from headrace.arrow.encode import RowColumns, encode_batches
from headrace.client.blocking import BlockingClient
from headrace.spark.session import local_session, stop_session

VALUE_BYTES = 100
PARTITIONS = 2
PRODUCER_BATCH_BYTES = 16_384
FORMATS = ("headrace", "kafka")
READ_AIMS = {"rows/s": 1.5, "CPU s/M rows": 0.6}
VALUE_AIMS = {"rows/s": 1.5, "CPU s/M rows": 0.35}
SINK_AIM = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed query."""

    seconds: float
    cpu_s: float


def fill(bootstrap: str, topic: str, rows: int) -> None:
    """`rows` random values over the partitions, in batches of the size that producers make by default."""
    rng = np.random.default_rng(1)
    settings = BatchSettings(max_batch_bytes=PRODUCER_BATCH_BYTES)
    with BlockingClient(bootstrap) as client:
        producer = client.producer()
        for partition in range(PARTITIONS):
            left = rows // PARTITIONS
            while left:
                count = min(left, 100_000)
                bounds = np.arange(0, (count + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
                data = rng.bytes(count * VALUE_BYTES)
                value = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
                for batch in encode_batches(RowColumns(value=value), now_ms=int(time.time() * 1000), settings=settings):
                    producer.send(topic, partition, batch)
                producer.flush()
                left -= count


def cpu_seconds(java_pid: int) -> float:
    """CPU used so far by Spark's Java process and its Python workers, those that have ended among them."""
    java = psutil.Process(java_pid)
    total = 0.0
    for process in (java, *java.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended, and is among its parent's children from now on
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def timed(work: Callable[[], object], java_pid: int) -> Sample:
    """Run it once."""
    cpu, before = cpu_seconds(java_pid), time.monotonic()
    work()
    return Sample(seconds=time.monotonic() - before, cpu_s=cpu_seconds(java_pid) - cpu)


def count_and_sum(rows: Any, expected: int) -> None:
    """All rows, and all their bytes, in one aggregate."""
    found = rows.selectExpr("count(*) AS n", "sum(length(value)) AS bytes").collect()[0]
    assert (found["n"], found["bytes"]) == (expected, expected * VALUE_BYTES), found


def read_loads(spark: Any, bootstrap: str, topic: str, rows: int) -> dict[str, Callable[[str], Callable[[], object]]]:
    """The queries, each for a format; of "value only" our source is told by `columns`, Spark's own cannot be told."""

    def frame(source: str, **options: str) -> Any:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    def value_only(source: str) -> Any:
        return frame(source, columns="value") if source == "headrace" else frame(source)

    return {
        "count and sum": lambda source: lambda: count_and_sum(frame(source), rows),
        "value only": lambda source: lambda: count_and_sum(value_only(source), rows),
        "noop": lambda source: lambda: frame(source).write.format("noop").mode("overwrite").save(),
    }


def sink_load(spark: Any, bootstrap: str, topic: str, rows: int) -> Callable[[str], Callable[[], object]]:
    """Rows of one length, made by Spark, written to a topic."""

    def write(source: str) -> None:
        made = spark.range(0, rows, 1, PARTITIONS).selectExpr(f"rpad(CAST(id AS STRING), {VALUE_BYTES}, 'x') AS value")
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        made.write.format(source).options(**options).mode("append").save()

    return lambda source: lambda: write(source)


def measure(options: argparse.Namespace, system: peers.System, console: Console) -> dict[str, dict[str, list[Sample]]]:
    """Load -> format -> a sample a round, the formats in turn and each first in every second round."""
    admin = system.admin
    for name in ("bench-read", "bench-sink"):
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
            future.result(30)
    fill(system.bootstrap, "bench-read", options.rows)
    log_path = Path(tempfile.mkdtemp()) / "spark.log"
    jars = ",".join(str(jar) for jar in connector.jars())
    spark = local_session("bench-spark", master="local[2]", config={"spark.jars": jars}, log_path=log_path)
    java_pid = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - the one way to the Java process
    loads = read_loads(spark, system.bootstrap, "bench-read", options.rows)
    loads["sink"] = sink_load(spark, system.bootstrap, "bench-sink", options.rows)
    samples: dict[str, dict[str, list[Sample]]] = {load: {source: [] for source in FORMATS} for load in loads}
    try:
        for number in range(-options.warm_up, options.rounds):
            console.print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", style="dim")
            order = FORMATS if number % 2 else FORMATS[::-1]
            for load, work in loads.items():
                if load == "sink" and number < -1:
                    continue
                for source in order:
                    sample = timed(work(source), java_pid)
                    if number >= 0:
                        samples[load][source].append(sample)
    finally:
        stop_session(spark)
        shutil.rmtree(log_path.parent)
    return samples


def show(samples: dict[str, dict[str, list[Sample]]], rows: int, console: Console) -> dict[str, Any]:
    """The table; returns what it says, for keeping."""
    table = Table(
        title=f"Spark, {rows:,} rows of {VALUE_BYTES} B, {PARTITIONS} partitions, local[2]: median (least..most)"
    )
    for name in ("load", "figure", "headrace", "Spark's kafka", "ratio", "aim", ""):
        table.add_column(name, justify="left" if name in ("load", "figure") else "right")
    kept: dict[str, Any] = {}
    for load, by_format in samples.items():
        speed = {source: [rows / each.seconds for each in by_format[source]] for source in FORMATS}
        cost = {source: [each.cpu_s / rows * 1e6 for each in by_format[source]] for source in FORMATS}
        kept[load] = {"rows/s": speed, "CPU s/M rows": cost}
        for figure, found in (("rows/s", speed), ("CPU s/M rows", cost)):
            ratio = statistics.median(found["headrace"]) / statistics.median(found["kafka"])
            aim, reached = _aim(load, figure, ratio, found["headrace"])
            table.add_row(
                load, figure, _spread(found["headrace"]), _spread(found["kafka"]), f"{ratio:.2f}", aim, reached
            )
    console.print(table)
    return kept


def _aim(load: str, figure: str, ratio: float, ours: Sequence[float]) -> tuple[str, str]:
    if load == "sink":
        reached = statistics.median(ours) >= SINK_AIM
        return (f">= {SINK_AIM:,} rows/s", "yes" if reached else "no") if figure == "rows/s" else ("", "")
    aim = (VALUE_AIMS if load == "value only" else READ_AIMS)[figure]
    if figure == "rows/s":
        return f">= {aim}", "yes" if ratio >= aim else "no"
    return f"<= {aim}", "yes" if ratio <= aim else "no"


def _spread(values: Sequence[float]) -> str:
    digits = 0 if statistics.median(values) >= 100 else 2
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def main(arguments: Sequence[str]) -> None:
    """Parse, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=8, help="rounds that do not count")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--broker", choices=["headrace", "kafka"], default="headrace")
    options = parser.parse_args(arguments)
    console = Console(width=150)
    facts = machine()
    console.print(
        f"commit {facts['commit']}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before the run, broker {options.broker}"
    )
    directory = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir="/dev/shm"))
    start = peers.start_headrace if options.broker == "headrace" else peers.start_kafka
    system = start(directory / options.broker)
    try:
        samples = measure(options, system, console)
    finally:
        system.stop()
        shutil.rmtree(directory, ignore_errors=True)
    kept = show(samples, options.rows, console)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"spark-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    target.write_text(
        json.dumps({"machine": facts, "broker": options.broker, "rows": options.rows, **kept}, indent=1) + "\n"
    )
    console.print(f"kept in {target.relative_to(Path(__file__).parents[2])}")


if __name__ == "__main__":
    main(sys.argv[1:])
