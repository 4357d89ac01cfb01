"""A cluster that moves from Apache Kafka to Headrace and back, one node at a time, while it is written to and read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.peers import kafka
from tests.peers.quorum import KafkaMember, MixedCluster
from tests.support.copies import create, in_sync, same_bytes
from tests.support.numbered_load import PARTITIONS, Load, judge, read_all
from tests.support.roles import until

pytestmark = [pytest.mark.java, pytest.mark.slow]

NODES = (1, 2, 3)
ORDERS = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]


@dataclass
class Reader:
    """A member of a group that reads what is committed, and commits how far it is; what it saw, and the positions that were acknowledged to it."""

    bootstrap: str
    seen: set[int] = field(default_factory=set)
    positions: list[dict[int, int]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until stopped."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe(["numbers"])
        while not self.stopped.is_set():
            messages = [each for each in consumer.consume(5_000, 0.2) if each.error() is None]
            if messages:
                self.seen.update(int(each.value()) for each in messages)
                self._commit(consumer)
        consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        try:
            done = consumer.commit(asynchronous=False)
        except Exception:  # noqa: BLE001 - confluent-kafka's own; a coordinator that moves: what is read is committed next time
            return
        self.positions.append({each.partition: each.offset for each in done if each.error is None and each.offset >= 0})


@pytest.fixture
def cluster() -> Iterator[MixedCluster]:
    """Three combined nodes of Apache Kafka with all the features that it has by default."""
    properties = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
    cluster = MixedCluster(kafkas=NODES, controllers=len(NODES), combined=True, properties=properties)
    for member in cluster.members.values():
        assert isinstance(member, KafkaMember)
        member.is_plain = False
    with cluster:
        yield cluster


def test_a_cluster_moves_to_headrace_and_back_while_it_is_used(
    cluster: MixedCluster, record_property: Callable[[str, object], None]
) -> None:
    """inv:PR1 inv:PR2 inv:PR4 inv:PR6 B-K12 B-P04 B-P06: features are lowered, then each node is stopped and the other program takes over its directory; nothing is lost, repeated or out of order, and a group goes on where it was."""
    lowered = [f"--feature={name}=0" for name in kafka.PLAIN_FEATURES]
    kafka.run_tool("kafka-features", "--bootstrap-server", cluster.bootstrap_servers, "downgrade", *lowered, check=True)
    create(cluster, "numbers", ORDERS, min_insync_replicas="2")
    load, reader = Load(cluster.bootstrap_servers, "numbers"), Reader(cluster.bootstrap_servers)
    threads = [threading.Thread(target=load.run), threading.Thread(target=reader.run)]
    for thread in threads:
        thread.start()
    try:
        for order in (NODES, NODES[::-1]):
            for node_id in order:
                before = load.sent
                cluster.hand_over(node_id)
                in_sync(cluster, "numbers")
                in_sync(cluster, "__consumer_offsets")
                until(lambda at=before: load.sent > at + 1_000)  # type: ignore[misc]
            assert [cluster.is_kafka(each) for each in NODES] == [order is not NODES] * len(NODES)
            until(lambda: reader.positions and len(reader.seen) > load.sent // 2)
    finally:
        load.stopped.set()
        threads[0].join()
    try:
        until(lambda: len(reader.seen) == load.sent)
    finally:
        reader.stopped.set()
        threads[1].join()
    assert load.failed == []
    judge(load, read_all(cluster.bootstrap_servers, "numbers"), told="to Headrace and back")
    assert all(same_bytes(cluster, "numbers"))
    for partition in range(PARTITIONS):
        offsets = [each[partition] for each in reader.positions if partition in each]
        assert offsets == sorted(offsets), f"a committed position of partition {partition} went back"
    assert committed(cluster.bootstrap_servers) == max_positions(reader)
    record_property(
        "longest time without an acknowledgement while nodes were replaced (s)", round(load.longest_gap_s, 2)
    )


def committed(bootstrap: str) -> dict[int, int]:
    """The group's positions, as a coordinator tells them now."""
    asker = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    try:
        places = [TopicPartition("numbers", number) for number in range(PARTITIONS)]
        return {each.partition: each.offset for each in asker.committed(places, timeout=30)}
    finally:
        asker.close()


def max_positions(reader: Reader) -> dict[int, int]:
    """The highest position of each partition that was acknowledged."""
    return {
        partition: max(each[partition] for each in reader.positions if partition in each)
        for partition in range(PARTITIONS)
    }
