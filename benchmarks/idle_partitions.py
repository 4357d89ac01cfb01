"""What does a node cost that holds many partitions and does nothing, ours and Apache Kafka's, in one run?

``python -m benchmarks.idle_partitions [--partitions 10000] [--seconds 20] [--only headrace]``. A node gets its topics and one record a
partition, and is then left alone: its CPU time, wake-ups and resident memory are taken. After a clean stop it is started again,
until every partition has a leader and the last one can be read. The result goes to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import headrace
from headrace.testing import Node
from tests.peers.kafka import Kafka

RESULTS: Final = Path(__file__).parent / "results"
PARTITIONS_A_TOPIC: Final = 500
SETTLE_S: Final = 15.0
"""After the load, before anything is measured: what it left (flushes, indexes, a snapshot, a JVM's compiler) is done by then."""
_TIMEOUT_S: Final = 180.0


@dataclass
class Figures:
    """One system, in seconds and MB; `idle_core_percent` and `wakeups_per_s` (voluntary context switches) while it does nothing."""

    name: str
    create_s: float = 0.0
    idle_core_percent: float = 0.0
    wakeups_per_s: float = 0.0
    resident_mb: float = 0.0
    open_files: int = 0
    stop_s: float = 0.0
    ready_s: float = 0.0
    ready_cpu_s: float = 0.0
    resident_after_start_mb: float = 0.0


@dataclass
class Running:
    """A started node."""

    bootstrap: str
    pid: int
    stop: Callable[[], object]


def start_headrace(directory: Path) -> Running:
    """A process of its own; started again on the same directory it finds its logs."""
    node = Node(directory=directory).start()
    return Running(node.bootstrap_servers, node.pid, node.stop)


def start_kafka(directory: Path) -> Running:
    """With its usual garbage collector and a heap of 1 GB."""
    kafka = Kafka(directory, heap=("-Xms256m", "-Xmx1g"), quick=False).start(_TIMEOUT_S)
    assert kafka.process is not None
    return Running(kafka.bootstrap, kafka.process.pid, kafka.stop)


SYSTEMS: Final = {"headrace": start_headrace, "kafka": start_kafka}


def fill(bootstrap: str, topics: Sequence[str], partitions: int) -> None:
    """Make the topics and write a record to each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in topics:
        for future in admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=60).values():
            future.result(60)
    wait_for_leaders(bootstrap, topics, partitions)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 100})
    for topic in topics:
        for partition in range(partitions):
            producer.produce(topic, b"idle", partition=partition)
        producer.flush(60)


def wait_for_leaders(bootstrap: str, topics: Sequence[str], partitions: int) -> None:
    """Return when every partition has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=60).topics
        if all(
            topic in found
            and len(found[topic].partitions) == partitions
            and all(each.leader >= 0 for each in found[topic].partitions.values())
            for topic in topics
        ):
            return
        time.sleep(0.02)
    raise SystemExit(f"not every partition has a leader after {_TIMEOUT_S:.0f} s")


def read_last(bootstrap: str, topic: str, partition: int) -> None:
    """Read the record of one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    message = consumer.poll(60)
    consumer.close()
    if message is None or message.value() != b"idle":
        raise SystemExit(f"{topic}-{partition} cannot be read after the restart")


def measure(
    name: str, start: Callable[[Path], Running], directory: Path, *, partitions: int, seconds: float
) -> Figures:
    """The whole life of one system."""
    figures = Figures(name)
    topics = [f"idle-{number:03}" for number in range(partitions // PARTITIONS_A_TOPIC)]
    running = start(directory)
    try:
        before = time.monotonic()
        fill(running.bootstrap, topics, PARTITIONS_A_TOPIC)
        figures.create_s = time.monotonic() - before
        time.sleep(SETTLE_S)
        process = psutil.Process(running.pid)
        began, switches, cpu = time.monotonic(), wakeups(running.pid), cpu_s(process)
        time.sleep(seconds)
        took = time.monotonic() - began
        figures.idle_core_percent = 100 * (cpu_s(process) - cpu) / took
        figures.wakeups_per_s = (wakeups(running.pid) - switches) / took
        figures.resident_mb = process.memory_info().rss / 1e6
        figures.open_files = process.num_fds()
    finally:
        before = time.monotonic()
        running.stop()
        figures.stop_s = time.monotonic() - before
    before = time.monotonic()
    running = start(directory)
    try:
        wait_for_leaders(running.bootstrap, topics, PARTITIONS_A_TOPIC)
        read_last(running.bootstrap, topics[-1], PARTITIONS_A_TOPIC - 1)
        figures.ready_s = time.monotonic() - before
        process = psutil.Process(running.pid)
        figures.ready_cpu_s = cpu_s(process)
        figures.resident_after_start_mb = process.memory_info().rss / 1e6
    finally:
        running.stop()
    return figures


def cpu_s(process: psutil.Process) -> float:
    """CPU time so far, user and system."""
    times = process.cpu_times()
    return float(times.user + times.system)


def wakeups(pid: int) -> int:
    """Voluntary context switches of all threads so far: so often one of them went to sleep, to be woken again."""
    count = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                count += int(line.split()[1])
    return count


def show(console: Console, rows: Sequence[Figures], partitions: int) -> None:
    """A column a system."""
    table = Table(title=f"{partitions} partitions, idle")
    table.add_column("")
    for row in rows:
        table.add_column(row.name, justify="right")
    for key in list(asdict(rows[0]))[1:]:
        table.add_row(key, *(f"{getattr(row, key):.2f}" for row in rows))
    console.print(table)


def main() -> None:
    """Measure, show, keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", choices=tuple(SYSTEMS))
    parser.add_argument("--no-result", action="store_true", help="show only")
    arguments = parser.parse_args()
    console = Console()
    rows = []
    for name, start in SYSTEMS.items():
        if arguments.only in (None, name):
            directory = Path(tempfile.mkdtemp(prefix=f"idle-{name}-"))
            try:
                rows.append(measure(name, start, directory, partitions=arguments.partitions, seconds=arguments.seconds))
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    show(console, rows, arguments.partitions)
    if not arguments.no_result:
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        result = {
            "commit": commit.stdout.strip(),
            "version": headrace.__version__,
            "python": platform.python_version(),
            "machine": platform.platform(),
            "partitions": arguments.partitions,
            "figures": [asdict(row) for row in rows],
        }
        path = RESULTS / f"idle-{time.strftime('%Y%m%d-%H%M%S')}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        console.print(f"written: {path}")


if __name__ == "__main__":
    main()
