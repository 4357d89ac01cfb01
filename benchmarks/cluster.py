"""How fast are three nodes with three copies of each record, ours and Apache Kafka's, in one run?

``python -m benchmarks.cluster [--rounds 3] [--seconds 3] [--only headrace] [--topics 1000]``. In each round three combined nodes of each system in turn
are formatted and started on tmpfs, loaded with ``acks=all``, and stopped; nothing of the other system runs meanwhile. The first load of each kind
does not count, so that Kafka has compiled what it needs. The result goes to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.run import machine, touch_memory
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages import alter_partition_reassignments as moves
from tests.peers.quorum import MixedCluster

RESULTS: Final = Path(__file__).parent / "results"
NODES: Final = (1, 2, 3)
SYSTEMS: Final = ("headrace", "kafka")
SETTINGS: Final = {
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.replication.factor": "3",
}
_TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.02
_CATCH_UP_BYTES: Final = 1 << 30
_TOPICS_A_REQUEST: Final = 500
"""Kafka refuses a request that makes more than 10,000 records: 900 topics of ten partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load on partition 0 of a topic with three copies, and the figure of its answer that counts."""

    name: str
    mode: str
    options: tuple[str, ...]
    figure: tuple[str, ...]
    aim: float


LOADS: Final = (
    Load(
        name="produce 900 x 1 KB, acks=all, 5 in flight (MB/s)",
        mode="produce",
        options=("--records", "900"),
        figure=("MB/s",),
        aim=1.8,
    ),
    Load(
        name="produce 1 x 100 B, acks=all, closed loop (requests/s)",
        mode="produce",
        options=("--records", "1", "--record-size", "100", "--in-flight", "1"),
        figure=("requests/s",),
        aim=1.8,
    ),
    Load(
        name="produce 1 x 100 B, acks=all, 5 in flight (requests/s)",
        mode="produce",
        options=("--records", "1", "--record-size", "100"),
        figure=("requests/s",),
        aim=2.5,
    ),
    Load(
        name="end to end at 500/s, p99 (ms)",
        mode="e2e",
        options=("--record-size", "100", "--rate", "500"),
        figure=("ms", "p99"),
        aim=0.5,
    ),
)
AIMS: Final = {
    **{load.name: load.aim for load in LOADS},
    "format and start three nodes (s)": 0.15,
    "start three formatted nodes (s)": 0.15,
    "memory of the three after the loads (MB)": 0.15,
    "create 100 topics x 10 partitions x 3 copies, all online (s)": 1.0,
    "create many topics x 10 partitions x 3 copies, all online (s)": 1.0,
    "an empty follower copies 1 GB (MB/s)": 1.5,
}
"""Row -> the ratio to Kafka that is aimed at; below one and for those of `_SMALL` less is better."""
_SMALL: Final = ("(s)", "(MB)", "(ms)")


def is_less_better(row: str) -> bool:
    """Times and memory."""
    return row.endswith(_SMALL)


@dataclass
class Trial:
    """Three running nodes of one system, and what was measured with them."""

    cluster: Cluster
    seconds: float
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def admin(self) -> AdminClient:
        """A fresh admin client."""
        settings = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "log_level": 0}
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, **settings})

    def start(self) -> None:
        """Format and start; then stop, and start what is formatted."""
        self.figures["format and start three nodes (s)"] = self._timed(self._up)
        self.cluster.stop()
        self.figures["start three formatted nodes (s)"] = self._timed(self._up)

    def _timed(self, work: Callable[[], object]) -> float:
        before = time.monotonic()
        work()
        return time.monotonic() - before

    def _up(self) -> None:
        """Until each node listens and a client sees three brokers; after a stop they are known before they are up."""
        self.cluster.launch()
        until(lambda: all(each.is_listening() for each in self.cluster.brokers), "all nodes listen")
        until(lambda: len(self.admin.list_topics(timeout=2).brokers) == len(NODES), "three brokers are listed")

    def create(self, topic: str, *, copies: int = 3) -> None:
        """One partition; in sync when this returns."""
        self.create_many([topic], partitions=1, copies=copies)

    def create_many(self, topics: Sequence[str], *, partitions: int, copies: int = 3) -> None:
        """As few requests as Kafka takes them in; online when this returns."""
        admin = self.admin
        for first in range(0, len(topics), _TOPICS_A_REQUEST):
            new = [NewTopic(topic, partitions, copies) for topic in topics[first : first + _TOPICS_A_REQUEST]]
            for future in admin.create_topics(new, operation_timeout=120, request_timeout=180).values():
                future.result()
        wanted = len(topics) * partitions
        names = set(topics)

        def are_online() -> bool:
            found = admin.list_topics(timeout=60).topics
            online: int = sum(
                each.leader >= 0 and len(each.isrs) == copies
                for name in names & found.keys()
                for each in found[name].partitions.values()
            )
            return online == wanted

        until(are_online, f"{wanted} partitions are online")

    def delete(self, topics: Sequence[str]) -> None:
        """Remove topics with what they hold."""
        admin = self.admin
        for future in admin.delete_topics(list(topics), request_timeout=180).values():
            future.result()
        time.sleep(0.5)

    def leader(self, topic: str) -> Member:
        """Who leads partition 0."""
        return self.cluster[self.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader]

    def run(self, load: Load, topic: str, seconds: float) -> float:
        """One load on partition 0 of `topic`, by a process of its own."""
        leader = self.leader(topic)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.wire_load", load.mode, "--topic", topic, "--acks", "-1"),
                *("--bootstrap", f"{leader.place.host}:{leader.port}", "--seconds", str(seconds), "--warm-up", "0.5"),
                *load.options,
            ],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{load.name}: {done.stdout}{done.stderr}")
        value: Any = json.loads(done.stdout)
        for name in load.figure:
            value = value[name]
        return float(value)

    def loads(self) -> None:
        """Each load twice, of which the second counts."""
        for index, load in enumerate(LOADS):
            for turn, seconds in (("warm", min(1.5, self.seconds)), ("counted", self.seconds)):
                topic = f"load-{index}-{turn}"
                self.create(topic)
                self.figures[load.name] = self.run(load, topic, seconds)
                self.delete([topic])
        resident = sum(psutil.Process(each.pid).memory_info().rss for each in self.cluster.brokers)
        self.figures["memory of the three after the loads (MB)"] = resident / 1e6

    def topics(self, many: int) -> None:
        """A hundred, and many."""
        for count, row in ((100, "create 100 topics"), (many, "create many topics")):
            names = [f"{row.split()[1]}-{index}" for index in range(count)]
            took = self._timed(partial(self.create_many, names, partitions=10))
            self.figures[f"{row} x 10 partitions x 3 copies, all online (s)"] = took
            self.delete(names)

    def catch_up(self) -> None:
        """A broker that has nothing of a partition of 1 GB is added to its replicas, until it is in sync."""
        self.create("copied", copies=1)
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0, "linger.ms": 20})
        value = bytes(100_000)
        for index in range(_CATCH_UP_BYTES // len(value)):
            producer.produce("copied", value)
            if index % 100 == 0:
                producer.flush(60)
        producer.flush(60)
        leader = self.leader("copied")
        other = next(each.node_id for each in self.cluster.brokers if each is not leader)
        partition = moves.ReassignablePartition(partition_index=0, replicas=(leader.node_id, other))
        request = moves.AlterPartitionReassignmentsRequest(
            timeout_ms=60_000, topics=(moves.ReassignableTopic(name="copied", partitions=(partition,)),)
        )
        before = time.monotonic()
        answer = ask(leader.place.host, leader.port, request, 0, timeout_s=60)
        if answer.error_code or answer.responses[0].partitions[0].error_code:
            raise SystemExit(f"the reassignment was refused: {answer}")
        admin = self.admin
        until(
            lambda: len(admin.list_topics("copied", timeout=10).topics["copied"].partitions[0].isrs) == 2,
            "the empty follower is in sync",
        )
        self.figures["an empty follower copies 1 GB (MB/s)"] = _CATCH_UP_BYTES / 1e6 / (time.monotonic() - before)


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for it. Raises SystemExit."""
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(KafkaException):  # what a client says of a cluster that is not up yet
            if holds():
                return
        time.sleep(_POLL_S)
    raise SystemExit(f"not after {_TIMEOUT_S:.0f} s: {what}")


def measure(system: str, options: argparse.Namespace) -> dict[str, float]:
    """All rows of one system in one round."""
    kafkas = NODES if system == "kafka" else ()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir="/dev/shm") as directory:
        cluster = MixedCluster(
            kafkas=kafkas,
            quick=False,
            heap=("-Xms512m", "-Xmx1g"),
            controllers=len(NODES),
            combined=True,
            properties=SETTINGS,
            directory=Path(directory),
        )
        trial = Trial(cluster, options.seconds)
        try:
            trial.start()
            trial.loads()
            trial.topics(options.topics)
            trial.catch_up()
            cluster.stop()
        finally:
            cluster.end()
    return trial.figures


def show(figures: dict[str, dict[str, list[float]]], many: int, console: Console) -> None:
    """The table: medians, spreads, ratio, aim."""
    table = Table(title="Three Headrace nodes beside three of Apache Kafka, data on tmpfs")
    for name in ("what", *figures, "ratio", "aim", ""):
        table.add_column(name, justify="left" if name == "what" else "right")
    for row, aim in AIMS.items():
        cells = [figures[system][row] for system in figures]
        ratio = statistics.median(cells[0]) / statistics.median(cells[-1]) if len(cells) > 1 else None
        reached = ratio is not None and (ratio <= aim if is_less_better(row) else ratio >= aim)
        table.add_row(
            row.replace("create many", f"create {many:,}"),
            *(spread(each) for each in cells),
            "" if ratio is None else f"{ratio:.2f}",
            f"{'<=' if is_less_better(row) else '>='} {aim}",
            "" if ratio is None else "yes" if reached else "no",
        )
    console.print(table)


def spread(values: Sequence[float]) -> str:
    """Median, least and most."""
    middle = statistics.median(values)
    digits = 0 if middle >= 100 else 2
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def main(arguments: Sequence[str]) -> None:
    """Parse, measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--topics", type=int, default=1_000, help="that are made at once, beside a hundred")
    parser.add_argument("--only", choices=SYSTEMS, action="append", help="one system")
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    systems = options.only or list(SYSTEMS)
    figures: dict[str, dict[str, list[float]]] = {system: {} for system in systems}
    about = machine()
    touch_memory(Path("/dev/shm"))
    for number in range(options.rounds):
        for system in systems if number % 2 == 0 else systems[::-1]:
            sys.stderr.write(f"round {number + 1} of {options.rounds}: {system}\n")
            for row, value in measure(system, options).items():
                figures[system].setdefault(row, []).append(value)
    show(figures, options.topics, Console(width=150))
    if not options.dry:
        path = RESULTS / f"cluster-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
        path.write_text(json.dumps({"machine": about, "topics": options.topics, "figures": figures}, indent=1) + "\n")
        sys.stdout.write(f"kept in {path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
