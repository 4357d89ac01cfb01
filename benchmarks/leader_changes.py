"""How long until a partition is served by its new leader, on quiet brokers and while 500 topics are being deleted, and who fetches metadata?

``python -m benchmarks.leader_changes [--changes 200] [--topics 500] [--only headrace] [--dry]``. Three controllers and three brokers. S3-06: with 1,000 topics of
three partitions and three copies the active controller has one metadata fetcher a broker and a standby, five, as with none. S3-07: a change of leader
is not queued behind other work: from the controller's acknowledgement to the first acknowledged record at the new leader, in the 99th percentile at most twice as long
while topics are deleted. The same on Apache Kafka's nodes. The result goes to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.run import machine
from benchmarks.scale.wire import Link
from benchmarks.wire_load import build_batch, quantiles_ms
from headrace.testing.cluster import Cluster
from headrace.wire.messages import alter_partition_reassignments as moves
from headrace.wire.messages import elect_leaders
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.peers.quorum import MixedCluster

RESULTS: Final = Path(__file__).parent / "results"
SYSTEMS: Final = ("headrace", "kafka")
CONTROLLERS: Final = 3
BROKERS: Final = (101, 102, 103)
LED: Final = 30
"""Partitions whose leaders change."""
SETTINGS: Final = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "100",
}
_AT_ONCE: Final = 500
_PATIENCE_S: Final = 60.0


class Changer:
    """One connection to each broker; moves a partition's leadership round its replicas and asks the new leader to write."""

    def __init__(self, cluster: Cluster) -> None:
        self._open = ExitStack()
        self._links = {each.node_id: self._open.enter_context(Link(each.port)) for each in cluster.brokers}
        self._orders = {number: itertools.cycle(orders(number)) for number in range(LED)}
        self._batch = build_batch(1, 100, int(time.time() * 1000))
        for cycle in self._orders.values():
            next(cycle)  # the order that the topic was made with

    def close(self) -> None:
        """Close the connections."""
        self._open.close()

    def change(self, number: int) -> float:
        """Seconds from the acknowledged election to an acknowledged record. Raises SystemExit."""
        order = next(self._orders[number])
        self._reorder(number, order)
        places = (elect_leaders.TopicPartitions(topic="led", partitions=(number,)),)
        request = elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=places, timeout_ms=30_000)
        answer = self._links[order[0]].ask(request)
        if answer.error_code or answer.replica_election_results[0].partition_result[0].error_code:
            raise SystemExit(f"partition {number} was not led by {order[0]}: {answer}")
        began = time.perf_counter()
        while time.perf_counter() - began < _PATIENCE_S:
            if self._write(order[0], number) == 0:
                return time.perf_counter() - began
        raise SystemExit(f"{order[0]} does not serve partition {number}")

    def _reorder(self, number: int, order: tuple[int, ...]) -> None:
        partition = moves.ReassignablePartition(partition_index=number, replicas=order)
        topic = moves.ReassignableTopic(name="led", partitions=(partition,))
        answer = self._links[order[0]].ask(moves.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=(topic,)))
        if answer.error_code or answer.responses[0].partitions[0].error_code:
            raise SystemExit(f"partition {number} was not reordered: {answer}")

    def _write(self, broker_id: int, number: int) -> int:
        data = PartitionProduceData(index=number, records=self._batch)
        request = ProduceRequest(
            acks=1, timeout_ms=10_000, topic_data=(TopicProduceData(name="led", partition_data=(data,)),)
        )
        code: int = self._links[broker_id].ask(request).responses[0].partition_responses[0].error_code
        return code


def orders(number: int) -> list[tuple[int, ...]]:
    """The replicas of partition `number` in three orders, each with another leader."""
    return [tuple(BROKERS[(number + turn + at) % 3] for at in range(3)) for turn in range(3)]


def make(cluster: Cluster, topics: Sequence[NewTopic]) -> None:
    """Make topics, as few requests as Kafka takes them in."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for first in range(0, len(topics), _AT_ONCE):
        for future in admin.create_topics(list(topics[first : first + _AT_ONCE]), request_timeout=180).values():
            future.result()
    names = {each.topic for each in topics}
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=60).topics
        if all(name in found and all(each.leader >= 0 for each in found[name].partitions.values()) for name in names):
            return
        time.sleep(0.1)
    raise SystemExit("the topics are not online after 300 s")


def unmake(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete topics."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for future in admin.delete_topics(list(names), request_timeout=180).values():
        future.result()


def fetchers(cluster: Cluster) -> int:
    """Who fetches metadata of the active controller."""
    quorum = cluster.quorum()
    return len(quorum.current_voters) + len(quorum.observers) - 1


def directories(cluster: Cluster, prefix: str) -> Iterator[Path]:
    """What is left on disk of topics whose names begin so."""
    return (found for each in cluster.brokers for found in each.data.glob(f"{prefix}*"))


def changes(changer: Changer, count: int) -> list[float]:
    """The times of `count` changes of leader, one after the other."""
    return [changer.change(index % LED) for index in range(count)]


def while_deleting(changer: Changer, cluster: Cluster, topics: int) -> list[float]:
    """The times of changes from the request that deletes to the last directory that goes."""
    names = [f"doomed-{index}" for index in range(topics)]
    make(cluster, [NewTopic(name, 3, 3) for name in names])
    took: list[float] = []
    deletion = threading.Thread(target=unmake, args=(cluster, names))
    deletion.start()
    index = 0
    while deletion.is_alive() or any(True for _ in directories(cluster, "doomed-")):
        took.append(changer.change(index % LED))
        index += 1
    deletion.join()
    return took


def measure(system: str, options: argparse.Namespace) -> dict[str, object]:
    """All figures of one system."""
    ids = (*range(1, CONTROLLERS + 1), *BROKERS)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-", dir="/dev/shm") as directory,
        MixedCluster(
            kafkas=ids if system == "kafka" else (),
            quick=False,
            heap=("-Xms256m", "-Xmx1g"),
            controllers=CONTROLLERS,
            brokers=len(BROKERS),
            properties=SETTINGS,
            directory=Path(directory),
        ) as cluster,
    ):
        before = fetchers(cluster)
        make(cluster, [NewTopic("led", LED, replica_assignment=[list(orders(number)[0]) for number in range(LED)])])
        with closing(Changer(cluster)) as changer:
            changes(changer, options.changes)  # what is compiled on the way
            quiet = changes(changer, options.changes)
            busy = while_deleting(changer, cluster, options.topics)
        make(cluster, [NewTopic(f"many-{index}", 3, 3) for index in range(options.many)])
        return {
            "metadata fetchers": before,
            "metadata fetchers with many partitions more": fetchers(cluster),
            "quiet ms": quantiles_ms(quiet),
            "while topics are deleted ms": quantiles_ms(busy),
            "changes while topics are deleted": len(busy),
        }


def main(arguments: Sequence[str]) -> None:
    """Parse, measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--topics", type=int, default=500, help="that are deleted meanwhile")
    parser.add_argument(
        "--many", type=int, default=1_000, help="topics of three partitions that no fetcher more is there for"
    )
    parser.add_argument("--only", choices=SYSTEMS, action="append", help="one system")
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    about = machine()
    figures = {system: measure(system, options) for system in options.only or SYSTEMS}
    table = Table(title="From an acknowledged election to an acknowledged record, and who fetches metadata")
    for name in ("what", *figures):
        table.add_column(name, justify="left" if name == "what" else "right")
    for row in next(iter(figures.values())):
        table.add_row(row, *(str(each[row]) for each in figures.values()))
    Console(width=150).print(table)
    if not options.dry:
        path = RESULTS / f"leader-changes-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
        path.write_text(json.dumps({"machine": about, "figures": figures}, indent=1) + "\n")
        sys.stdout.write(f"kept in {path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
