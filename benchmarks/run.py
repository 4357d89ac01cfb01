"""How fast is Headrace beside Apache Kafka? Both in one run, in turn, on memory and on disk; a table of ratios.

``make bench``, or ``python -m benchmarks.run [--rounds 5] [--seconds 1.5] [--warm-up 0.3] [--on tmpfs] [--on disk] [--only NAME]``: about eight
minutes on each medium. ``--also KEY=VALUE`` measures one more node of ours with that setting, for instance ``headrace.network.busy.poll=off``. The result goes to ``benchmarks/results/`` with the commit and the versions. Each round makes fresh topics, and a first one that does not count lets Kafka compile what it needs; the median and the
spread are shown, and beside them the brokers' CPU time a request, which other work on the machine changes less than the speed.

A virtual machine gets much of its memory from its host when it is first touched, which takes longer than everything else that a broker does with a batch
(3 s/GB beside 0.6 on the machine where this was found), and may give back what was free for some seconds; so memory is touched before anything is measured,
and again before each load that writes much.

``--generator FILE`` takes another program with the options of `benchmarks.wire_load` (but for the warm-up) and its answer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

import headrace
from benchmarks import peers
from benchmarks.peers import System
from tests.peers import kafka

RESULTS = Path(__file__).parent / "results"
_TOUCHED_BYTES = 4 << 30
"""What a load of large batches writes, and what is still being deleted of the one before."""
_WRITES_MUCH = ("900", "10")
"""The records of a request with which a load writes gigabytes, in memory that the host may have taken back meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the table: a load, the figure that counts, and the ratio to Kafka that is aimed at."""

    name: str
    mode: str
    options: tuple[str, ...]
    figure: str
    aim: float
    fill: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    media: tuple[str, ...] = ("tmpfs", "disk")

    @property
    def writes_much(self) -> bool:
        """Whether it matters if the host has to find the memory for what is written."""
        return self.mode == "produce" and self.options[1] in _WRITES_MUCH

    @property
    def less_is_better(self) -> bool:
        """Latencies, times and memory."""
        return self.aim < 1 and self.mode not in ("produce", "fetch")


CELLS = (
    Cell(name="produce 900 x 1 KB, 5 in flight", mode="produce", options=("--records", "900"), figure="MB/s", aim=3.0),
    Cell(
        name="produce 900 x 1 KB, 4 connections", mode="produce", figure="MB/s", aim=3.0, media=("tmpfs",),
        options=("--records", "900", "--connections", "4"),
    ),
    Cell(
        name="produce 900 x 1 KB beside a neighbour", mode="produce", figure="MB/s", aim=2.0, media=("tmpfs",),
        options=("--records", "900", "--neighbour"),
    ),
    Cell(
        name="produce 10 x 1 KB, 5 in flight", mode="produce", options=("--records", "10"), figure="requests/s", aim=4.5,
    ),
    Cell(
        name="produce 1 x 100 B, closed loop", mode="produce", figure="requests/s", aim=1.8,
        options=("--records", "1", "--record-size", "100", "--in-flight", "1"),
    ),
    Cell(
        name="produce 1 x 100 B, 5 in flight", mode="produce", figure="requests/s", aim=5.0,
        options=("--records", "1", "--record-size", "100"),
    ),
    Cell(
        name="fsync before ack, 1 x 100 B, 10 in flight", mode="produce", figure="requests/s", aim=1.0,
        options=("--records", "1", "--record-size", "100", "--in-flight", "10"), settings=(("flush.messages", "1"),),
    ),
    Cell(
        name="200 connections of 10/s, 1 x 100 B, p99 (ms)", mode="paced", figure="ms.p99", aim=0.9, media=("tmpfs",),
        options=("--records", "1", "--record-size", "100", "--connections", "200", "--rate", "2000"),
    ),
    Cell(name="fetch 1 MB at a time", mode="fetch", options=(), figure="MB/s", aim=1.0, fill=("--records", "900")),
    Cell(
        name="fetch 64 KB of 10 x 1 KB batches", mode="fetch", options=("--partition-bytes", "65536"), figure="requests/s", aim=1.1,
        fill=("--records", "10"),
    ),
    Cell(
        name="session fetch 64 KB of 10 x 1 KB batches", mode="session", options=("--partition-bytes", "65536"),
        figure="requests/s", aim=2.0, fill=("--records", "10"),
    ),
    Cell(name="end to end p50, 1,000/s (ms)", mode="e2e", options=("--record-size", "100"), figure="ms.p50", aim=0.5),
    Cell(name="end to end p99, 1,000/s (ms)", mode="e2e", options=("--record-size", "100"), figure="ms.p99", aim=0.5),
)  # fmt: skip
FORMAT_AND_START = Cell(name="format + start (s)", mode="start", options=(), figure="", aim=0.15)
CPU = " CPU us"
RESIDENT = Cell(name="resident memory after the loads (MB)", mode="memory", options=(), figure="", aim=0.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """The program that makes the load, and for how long: seconds counted, and seconds before that."""

    program: tuple[str, ...]
    seconds: float
    warm_up: float
    takes_warm_up: bool

    def run(
        self, system: System, mode: str, options: Sequence[str], topic: str, *, seconds: float | None = None
    ) -> dict[str, object]:
        """One load in a process of its own. `cpu_us` in the answer is the broker's CPU time a request, where requests are counted."""
        counted = self.seconds if seconds is None else seconds
        command = [sys.executable, *self.program, mode, "--bootstrap", system.bootstrap, "--topic", topic]
        warm_up = ["--warm-up", str(self.warm_up)] if self.takes_warm_up else []
        before = system.cpu_s()
        done = subprocess.run(
            [*command, "--seconds", str(counted), *warm_up, *options],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{system.name}: {mode} {' '.join(options)}: {done.stdout}{done.stderr}")
        answer: dict[str, object] = json.loads(done.stdout)
        rate = answer.get("requests/s")
        if isinstance(rate, int | float) and rate:
            answer["cpu_us"] = (system.cpu_s() - before) * 1e6 / (rate * (counted + self.warm_up))
        return answer


def generator(options: argparse.Namespace) -> Generator:
    """Ours, or the one that was asked for."""
    own = options.generator is None
    return Generator(
        program=("-m", "benchmarks.wire_load") if own else (options.generator,),
        seconds=options.seconds,
        warm_up=options.warm_up if own else 1.0,
        takes_warm_up=own,
    )


def figure(answer: dict[str, object], name: str) -> float:
    """``a.b`` of nested objects, as a number."""
    value: object = answer
    for part in name.split("."):
        assert isinstance(value, dict)
        value = value[part]
    assert isinstance(value, int | float)
    return float(value)


def run_round(
    systems: Sequence[System], cells: Sequence[Cell], number: int, load: Generator, place: Path
) -> dict[str, dict[str, float]]:
    """Each load on each system in turn, whose data is in `place`; the order of the systems changes from round to round. With ``<load> CPU us`` a load."""
    measured: dict[str, dict[str, float]] = {}
    answers: dict[tuple[str, tuple[str, str]], dict[str, object]] = {}
    for index, cell in enumerate(cells):
        for system in systems if number % 2 else systems[::-1]:
            key = (system.name, (cell.mode, " ".join(cell.options)))
            if key not in answers:
                topic = f"bench-{number}-{index}"
                system.create_topic(topic, dict(cell.settings))
                if cell.fill:
                    load.run(system, "produce", cell.fill, topic, seconds=0.7)
                if cell.writes_much:
                    touch_memory(place)
                answers[key] = load.run(system, cell.mode, cell.options, topic)
                system.delete_topic(topic)
            measured.setdefault(cell.name, {})[system.name] = figure(answers[key], cell.figure)
            if "cpu_us" in answers[key]:
                measured.setdefault(cell.name + CPU, {})[system.name] = figure(answers[key], "cpu_us")
    return measured


def touch_memory(place: Path) -> float:
    """Have the host give this machine the memory that files in `place` may use; the seconds that it took."""
    before = time.monotonic()
    with tempfile.TemporaryFile(dir=place) as file:
        block = bytes(16 << 20)
        for _ in range(min(_TOUCHED_BYTES, psutil.virtual_memory().available // 4) // len(block)):
            file.write(block)
    return time.monotonic() - before


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return {
        "commit": commit,
        "headrace": headrace.__version__,
        "kafka": kafka.VERSION,
        "python": platform.python_version(),
        "java": java[0] if java else "",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "when": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    }


def measure(
    medium: str, base: Path, cells: Sequence[Cell], options: argparse.Namespace
) -> dict[str, dict[str, list[float]]]:
    """All rounds on one medium: cell name -> system -> a figure a round."""
    figures: dict[str, dict[str, list[float]]] = {}

    def note(cell: str, system: str, value: float) -> None:
        figures.setdefault(cell, {}).setdefault(system, []).append(value)

    directory = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=base))
    systems: list[System] = []
    try:
        systems.append(peers.start_headrace(directory / "headrace"))
        for each in options.also:
            key, _, value = each.partition("=")
            systems.append(peers.start_headrace(directory / key, {key: value}, name=f"headrace, {each}"))
        systems.append(peers.start_kafka(directory / "kafka"))
        print(f"{medium}: a round that does not count", file=sys.stderr, flush=True)
        load = generator(options)
        run_round(systems, cells, -1, replace(load, seconds=0.7), base)
        for number in range(options.rounds):
            print(
                f"{medium}: round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
                flush=True,
            )
            for name, each in run_round(systems, cells, number, load, base).items():
                for name_of_system, value in each.items():
                    note(name, name_of_system, value)
        for system in systems:
            note(FORMAT_AND_START.name, system.name, system.started_s)
            note(RESIDENT.name, system.name, system.resident_mb())
    finally:
        for system in systems:
            system.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return figures


def show(medium: str, figures: dict[str, dict[str, list[float]]], console: Console) -> None:
    """A table: medians, spreads, the ratio, the aim."""
    table = Table(title=f"Headrace beside Apache Kafka {kafka.VERSION}, data on {medium}")
    others = [name for name in figures[RESIDENT.name] if name not in ("headrace", "kafka")]
    for name in ("load", "headrace", "kafka", "ratio", "aim", "", "CPU us a request", *others):
        table.add_column(name, justify="left" if name == "load" else "right")
    for cell in (*CELLS, FORMAT_AND_START, RESIDENT):
        if cell.name not in figures:
            continue
        ours, theirs = figures[cell.name]["headrace"], figures[cell.name]["kafka"]
        middle = statistics.median(theirs)
        ratio = statistics.median(ours) / middle if middle else math.inf
        reached = ratio <= cell.aim if cell.less_is_better else ratio >= cell.aim
        aim = f"{'<=' if cell.less_is_better else '>='} {cell.aim}"
        cpu = {name: statistics.median(each) for name, each in figures.get(cell.name + CPU, {}).items()}
        table.add_row(
            cell.name,
            _spread(ours),
            _spread(theirs),
            f"{ratio:.2f}",
            aim,
            "yes" if reached else "no",
            f"{cpu['headrace']:,.0f} / {cpu['kafka']:,.0f}" if cpu else "",
            *(_spread(figures[cell.name][name]) for name in others),
        )
    console.print(table)


def _spread(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    digits = 0 if middle >= 100 else 2
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def main(arguments: Sequence[str]) -> None:
    """Parse, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--warm-up", type=float, default=0.3)
    parser.add_argument(
        "--also", action="append", default=[], metavar="KEY=VALUE", help="one more node, with this setting"
    )
    parser.add_argument("--generator", help="another load generator: a Python program")
    parser.add_argument("--on", action="append", choices=["tmpfs", "disk"])
    parser.add_argument("--only", action="append", default=[], help="part of a load's name")
    options = parser.parse_args(arguments)
    cells = [cell for cell in CELLS if not options.only or any(part in cell.name for part in options.only)]
    places = {"tmpfs": Path("/dev/shm"), "disk": Path(tempfile.gettempdir())}
    result: dict[str, object] = {"machine": machine(), "generator": Path(options.generator or "wire_load.py").name}
    console = Console(width=150)
    console.print(f"commit {machine()['commit']}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before the run")
    print(f"memory was touched for {touch_memory(places['tmpfs']):.1f} s", file=sys.stderr, flush=True)
    ready = [peers.ready_s(places["tmpfs"]) for _ in range(options.rounds)]
    result["headrace start to ready (s)"] = ready
    for medium in options.on or ["tmpfs", "disk"]:
        figures = measure(medium, places[medium], [cell for cell in cells if medium in cell.media], options)
        result[medium] = figures
        show(medium, figures, console)
    console.print(f"headrace start to ready: {_spread(ready)} s")
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"wire-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    target.write_text(json.dumps(result, indent=1) + "\n")
    console.print(f"kept in {target.relative_to(Path(__file__).parents[1])}")


if __name__ == "__main__":
    main(sys.argv[1:])
