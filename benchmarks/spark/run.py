"""How fast does Spark read and write topics through our source, beside Spark's own connector? Rate, CPU seconds a row, first batch, memory.

``make bench-spark``, or ``python -m benchmarks.spark.run [--all] [--cells batch,sink] [--rounds 5] [--warm-up 3] [--megabytes 150] [--broker headrace|kafka]``. One Spark session,
both sources in turn against one broker, each first in every second round, rounds warm: the first ones do not count, because Java compiles meanwhile. CPU seconds are those of Spark's
Java process and all its Python workers, which are told apart, and beside them the broker's. First batches and memory are those of fresh sessions (`fresh`). The result goes to ``benchmarks/results/`` with the commit and the versions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.run import RESULTS, machine
from benchmarks.spark.fresh import cpu_seconds, own_cpu_seconds
from benchmarks.spark.loads import FORMATS, Cell, cells, empty, make_topics, work
from headrace.spark.session import local_session, stop_session
from tests.peers import spark_connector

RATE, COST, BYTES = "rows/s", "CPU s/M rows", "MB/s"
PARTS: Final = ("of it Java", "of it Python", "the broker's")
"""Whose CPU seconds they are; those of the broker are not in `COST`."""
WORKER_MB: Final = 150
"""So much a Python worker may take at most."""
Samples = dict[Cell, dict[str, list["Sample"]]]
Fresh = dict[str, list[dict[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed query; `cpu_s` is all that Spark took, `java_s` the part of its Java process alone."""

    seconds: float
    cpu_s: float
    java_s: float
    broker_s: float


def timed(query: Callable[[], object], java_pid: int, system: peers.System) -> Sample:
    """Run it once."""
    cpu, java, broker = cpu_seconds(java_pid), own_cpu_seconds(java_pid), system.cpu_s()
    before = time.monotonic()
    query()
    return Sample(
        seconds=time.monotonic() - before,
        cpu_s=cpu_seconds(java_pid) - cpu,
        java_s=own_cpu_seconds(java_pid) - java,
        broker_s=system.cpu_s() - broker,
    )


def measure(options: argparse.Namespace, system: peers.System, wanted: list[Cell], console: Console) -> Samples:
    """Cell -> format -> a sample a round, the formats in turn and each first in every second round."""
    log_path = Path(tempfile.mkdtemp()) / "spark.log"
    config = {"spark.driver.extraClassPath": spark_connector.class_path()}
    spark = local_session("bench-spark", master="local[2]", config=config, log_path=log_path)
    java_pid = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - the one way to the Java process
    samples: Samples = {cell: {source: [] for source in FORMATS} for cell in wanted}
    try:
        for number in range(-options.warm_up, options.rounds):
            console.print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", style="dim")
            for cell in wanted:
                for source in FORMATS if number % 2 else FORMATS[::-1]:
                    query = work(spark, system.bootstrap, cell, source, cell.rows(options.megabytes))
                    sample = timed(query, java_pid, system)
                    if number >= 0:
                        samples[cell][source].append(sample)
                    if cell.way == "sink":
                        empty(system, cell)
    finally:
        stop_session(spark)
        shutil.rmtree(log_path.parent)
    return samples


def measure_fresh(options: argparse.Namespace, system: peers.System, topic: str, console: Console) -> Fresh:
    """Format -> what each fresh session told, in turn."""
    found: Fresh = {source: [] for source in FORMATS}
    for number in range(options.fresh):
        console.print(f"fresh session {number + 1} of {options.fresh}", style="dim")
        for source in FORMATS if number % 2 else FORMATS[::-1]:
            command = [sys.executable, "-m", "benchmarks.spark.fresh", source, system.bootstrap, topic]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
            found[source].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def figures(cell: Cell, samples: Sequence[Sample], rows: int) -> dict[str, list[float]]:
    """Rate, bytes of values and cost of each sample."""
    shares = zip(PARTS, *((each.java_s, each.cpu_s - each.java_s, each.broker_s) for each in samples), strict=True)
    return {
        RATE: [rows / each.seconds for each in samples],
        BYTES: [rows * cell.value_bytes / each.seconds / 1e6 for each in samples],
        COST: [each.cpu_s / rows * 1e6 for each in samples],
        **{name: [each / rows * 1e6 for each in seconds] for name, *seconds in shares},
    }


def show(samples: Samples, fresh: Fresh, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The tables; returns what they say, for keeping."""
    table = Table(title=f"Spark, {options.megabytes} MB of values, local[2]: median (least..most)")
    for name in ("load", "figure", "headrace", "Spark's kafka", "ratio", "aim", ""):
        table.add_column(name, justify="left" if name in ("load", "figure") else "right")
    kept: dict[str, Any] = {}
    for cell, by_format in samples.items():
        rows = cell.rows(options.megabytes)
        ours, theirs = (figures(cell, by_format[source], rows) for source in FORMATS)
        kept[str(cell)] = {name: dict(zip(FORMATS, (ours[name], theirs[name]), strict=True)) for name in ours}
        aims = cell.aims()
        for name in (RATE, COST, *PARTS):
            other = statistics.median(theirs[name])
            ratio = statistics.median(ours[name]) / other if other else 0.0
            aim, reached = _aim(aims.get(name), ratio, is_least=name == RATE)
            shown = f"{ratio:.2f}" if other else ""
            table.add_row(str(cell), name, _spread(ours[name]), _spread(theirs[name]), shown, aim, reached)
    for name in fresh[FORMATS[0]][0] if fresh[FORMATS[0]] else ():
        ours_fresh, theirs_fresh = ([each[name] for each in fresh[source]] for source in FORMATS)
        other = statistics.median(theirs_fresh)
        ratio = statistics.median(ours_fresh) / other if other else 0.0
        aim, reached = _fresh_aim(name, ratio, statistics.median(ours_fresh))
        shown = f"{ratio:.2f}" if other else ""
        table.add_row("fresh session", name, _spread(ours_fresh), _spread(theirs_fresh), shown, aim, reached)
    console.print(table)
    return {**kept, "fresh sessions": fresh}


def _aim(aim: float | None, ratio: float, *, is_least: bool) -> tuple[str, str]:
    if aim is None:
        return "", ""
    is_reached = ratio >= aim if is_least else ratio <= aim
    return f"{'>=' if is_least else '<='} {aim}", "yes" if is_reached else "no"


def _fresh_aim(name: str, ratio: float, ours: float) -> tuple[str, str]:
    if name.startswith("largest"):
        return f"<= {WORKER_MB} MB", "yes" if ours <= WORKER_MB else "no"
    if "CPU" in name:
        return "", ""
    return "<= 1", "yes" if ratio <= 1 else "no"


def _spread(values: Sequence[float]) -> str:
    digits = 0 if statistics.median(values) >= 100 else 2
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def main(arguments: Sequence[str]) -> None:
    """Parse, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="100 B and 1 KB, 2 and 12 partitions, all codecs, all ways")
    parser.add_argument("--cells", default="", help="only loads whose name begins so, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that do not count")
    parser.add_argument("--fresh", type=int, default=3, help="fresh sessions for each source")
    parser.add_argument("--megabytes", type=int, default=150, help="bytes of values in each load")
    parser.add_argument("--broker", choices=["headrace", "kafka"], default="headrace")
    options = parser.parse_args(arguments)
    console = Console(width=150)
    facts = machine()
    console.print(
        f"commit {facts['commit']}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before the run, broker {options.broker}"
    )
    begins = tuple(each for each in options.cells.split(",") if each)
    wanted = [cell for cell in cells(is_all=options.all) if not begins or str(cell).startswith(begins)]
    directory = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir="/dev/shm"))
    start = peers.start_headrace if options.broker == "headrace" else peers.start_kafka
    system = start(directory / options.broker)
    try:
        first = Cell(way="batch", value_bytes=100, partitions=2, codec="none")
        make_topics(system, [first, *wanted], options.megabytes)
        fresh = measure_fresh(options, system, first.topic, console)
        samples = measure(options, system, wanted, console)
    finally:
        system.stop()
        shutil.rmtree(directory, ignore_errors=True)
    kept = show(samples, fresh, options, console)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"spark-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    told = {"machine": facts, "broker": options.broker, "megabytes": options.megabytes, **kept}
    target.write_text(json.dumps(told, indent=1) + "\n")
    console.print(f"kept in {target.relative_to(Path(__file__).parents[2])}")


if __name__ == "__main__":
    main(sys.argv[1:])
