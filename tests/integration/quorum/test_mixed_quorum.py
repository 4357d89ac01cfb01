"""Do controllers of Apache Kafka and of Headrace form one quorum?

``HEADRACE_MIXED_CHANGES`` sets how often the leadership moves from one kind to the other in each quorum (4; ``make mixed``: 40).
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from contextlib import closing
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.integration.quorum.conftest import IS_KAFKA
from tests.peers import kafka
from tests.peers.quorum import MixedCluster
from tests.support.leadership import Loss, move_leadership
from tests.support.metadata_disk import image_of
from tests.support.metadata_load import Changer, wait_until
from tests.support.quorum_judge import compare_running, judge, settle

pytestmark = [pytest.mark.java, pytest.mark.skipif(IS_KAFKA, reason="ours and Kafka's together")]

CHANGES = int(os.environ.get("HEADRACE_MIXED_CHANGES", "4"))
OUR_BROKER, KAFKAS_BROKER = 101, 102
RECORDS = 10_000
BULK = 500
SNAPSHOT_EVERY = {"metadata.log.max.record.bytes.between.snapshots": "100000"}


def create_topic(cluster: Cluster, name: str) -> None:
    """A topic with a partition on each broker, made by the leader of the quorum."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=(broker_id,))
        for index, broker_id in enumerate((OUR_BROKER, KAFKAS_BROKER))
    )
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    while True:
        leader = cluster.leader()
        answer = ask(leader.place.host, leader.controller_port, CreateTopicsRequest(topics=(topic,)), 7)
        if answer.topics[0].error_code != ErrorCode.NOT_CONTROLLER:
            break  # else a leader that woke up and had not yet heard of the next
    assert [(each.error_code, each.error_message) for each in answer.topics] == [(0, None)]


def topics_at(broker: Member) -> set[str]:
    """The topics that a broker tells of."""
    answer: Any = ask(broker.place.host, broker.port, MetadataRequest(topics=None), 12)
    return {each.name for each in answer.topics}


def described(cluster: Cluster, node_id: int) -> list[str]:
    """What kafka-metadata-quorum says when it asks one node: status without what moves, and who is what."""
    member = cluster[node_id]
    where = ("--bootstrap-controller", f"{member.place.host}:{member.controller_port}", "describe")
    status = kafka.run_tool("kafka-metadata-quorum", *where, "--status", check=True).stdout
    moving = ("HighWatermark", "MaxFollowerLag", "MaxFollowerLagTimeMs")
    lines = [line for line in status.splitlines() if not line.startswith(moving)]
    replicas = kafka.run_tool("kafka-metadata-quorum", *where, "--replication", check=True).stdout
    rows = [line.split() for line in replicas.splitlines()[1:] if line.strip()]
    return sorted(lines) + sorted(f"{row[0]} {row[1]} {row[-1]}" for row in rows)


def start_again_without_data(cluster: Cluster, node_id: int) -> None:
    """A node comes back with an empty disk, and gets a snapshot from the leader."""
    settle(cluster)
    cluster.stop(node_id)
    shutil.rmtree(cluster[node_id].data)
    cluster.start(node_id)
    wait_until(lambda: list(cluster[node_id].metadata_log.glob("*.checkpoint")))


@pytest.mark.parametrize("kafkas", [(3,), (2, 3)], ids=["two of ours", "two of Kafka's"])
def test_leadership_moves_between_the_kinds(kafkas: tuple[int, ...]) -> None:
    """B-R22 B-S01 B-S09: the leadership goes from one kind to the other and back, with changes acknowledged between; every
    topic is on brokers of both kinds; a node of each kind gets a snapshot from a leader of the other; all logs are the same bytes.
    """
    losses = itertools.cycle(Loss)
    cluster = MixedCluster(kafkas=(*kafkas, KAFKAS_BROKER), controllers=3, brokers=2, properties=SNAPSHOT_EVERY)
    topics: set[str] = set()
    moves = {"kafka": 0, "headrace": 0}
    shared = 0
    with cluster, closing(Changer(cluster)) as changer:
        for number in range(CHANGES):
            leader = cluster.leader()
            leads_kafka = cluster.is_kafka(leader.node_id)
            wanted = next(each for each in cluster.controllers if cluster.is_kafka(each.node_id) is not leads_kafka)
            move_leadership(cluster, wanted, changer, next(losses))
            moves["headrace" if leads_kafka else "kafka"] += 1
            topics.add(f"topic-{number}")
            create_topic(cluster, f"topic-{number}")
            changer.change_many(BULK if number < 4 else 1)
            if number in (1, 2):
                while len(changer.acknowledged) < RECORDS:
                    changer.change_many(BULK)
                if number == 1:
                    shared = compare_running(cluster)
                    assert shared >= RECORDS
                start_again_without_data(cluster, leader.node_id)
            settle(cluster)
        for broker_id in (OUR_BROKER, KAFKAS_BROKER):
            wait_until(lambda at=cluster[broker_id]: topics_at(at) >= topics)  # type: ignore[misc]
        assert described(cluster, 1) == described(cluster, 2) == described(cluster, 3)
        assert len(changer.acknowledged) >= RECORDS
        end = cluster.quorum().high_watermark
        disks = judge(cluster, changer.acknowledged)
        images = [image_of(disk, end) for disk in disks.values()]
        assert all(image == images[0] for image in images)
        assert all(disk.snapshots for disk in disks.values())
        assert all(topics <= set(image.topics.by_name) for image in images)
        snapshots = {node_id: len(disk.snapshots) for node_id, disk in disks.items()}
        sys.stdout.write(
            f"\nKafka's controllers {kafkas}: leadership moved to {moves}, {len(changer.acknowledged)} settings and {len(topics)} topics "
            f"acknowledged, {shared} records in the same bytes before any disk was emptied, all logs equal up to {end}, snapshots {snapshots}\n"
        )


@pytest.mark.parametrize("founder", ["kafka", "headrace"])
def test_a_quorum_of_one_kind_takes_in_the_other(founder: str) -> None:
    """B-R23 B-R24 B-R25 S4-37: founded by one kind, joined by the other, which then leads while the founder is removed."""
    kafkas = (1,) if founder == "kafka" else (2, 3)
    cluster = MixedCluster(kafkas=kafkas, controllers=1, dynamic=True)
    for node_id in (2, 3):
        cluster.add(node_id)
    with cluster, closing(Changer(cluster)) as changer:
        changer.change_many(BULK)
        for node_id in (2, 3):
            cluster.add_voter(node_id)
            changer.change()
        assert cluster.voter_ids() == {1, 2, 3}
        cluster.remove_voter(1)
        wait_until(lambda: cluster.leader().node_id != 1)
        assert cluster.voter_ids() == {2, 3}
        changer.change_many(BULK)
        wait_until(lambda: 1 in {each.replica_id for each in cluster.quorum().observers})
        judge(cluster, changer.acknowledged)
