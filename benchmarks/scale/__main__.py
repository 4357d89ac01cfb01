"""What do 10,000, 100,000 and 1,000,000 partitions cost the controller, ours and Apache Kafka's?

``python -m benchmarks.scale [--partitions 10000 100000 1000000] [--kafka 10000 100000] [--per-topic 100] [--brokers 30] [--skip-wire]``

Two tables. The machine alone (`benchmarks.scale.machine`): decisions, replay and memory without sockets and disk. And a controller as a
process on its own (`benchmarks.scale.wire`): the same requests to Headrace and to Kafka, in turn. The result goes to
``benchmarks/results/`` with the commit and the versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import headrace
from benchmarks.scale import wire
from benchmarks.scale.load import Shape
from tests.peers import kafka

RESULTS = Path(__file__).parents[1] / "results"


def run_machine(shape: Shape) -> dict[str, float]:
    """The machine alone, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.scale.machine"]
    command += ["--partitions", str(shape.partitions), "--per-topic", str(shape.per_topic)]
    command += ["--brokers", str(shape.brokers)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def show(title: str, columns: dict[str, dict[str, float]], console: Console) -> None:
    """One table: a row a figure, a column a run."""
    table = Table(title=title)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    names = dict.fromkeys(name for column in columns.values() for name in column)
    for name in names:
        cells = [column.get(name) for column in columns.values()]
        table.add_row(name, *("" if cell is None else f"{cell:,.{2 if cell < 100 else 0}f}" for cell in cells))
    console.print(table)


def environment() -> dict[str, Any]:
    """What a figure depends on."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit,
        "headrace": headrace.__version__,
        "kafka": kafka.VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average_before": os.getloadavg()[0],
    }


def main(arguments: Sequence[str]) -> int:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--kafka", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--per-topic", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=30)
    parser.add_argument("--skip-wire", action="store_true")
    options = parser.parse_args(arguments)
    console = Console()
    result: dict[str, Any] = {"environment": environment(), "per_topic": options.per_topic, "brokers": options.brokers}

    def shape(partitions: int) -> Shape:
        return Shape(partitions=partitions, per_topic=options.per_topic, brokers=options.brokers)

    result["machine"] = {f"{each:,}": run_machine(shape(each)) for each in options.partitions}
    show("the controller machine alone", result["machine"], console)
    if not options.skip_wire:
        columns: dict[str, dict[str, float]] = {}
        with tempfile.TemporaryDirectory(prefix="headrace-scale-") as base:
            for each in options.partitions:
                columns[f"headrace {each:,}"] = wire.measure(shape(each), wire.headrace, Path(base))
                if each in options.kafka:
                    columns[f"kafka {each:,}"] = wire.measure(shape(each), wire.apache_kafka, Path(base))
        result["wire"] = columns
        show("a controller process", columns, console)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"scale-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
