"""Groups on a disk that goes from Headrace to Apache Kafka 4.3.1 and back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Node
from tests.integration.groups.scenarios import commit, fetch, heartbeat, join, sync
from tests.integration.groups.wire_session import World
from tests.peers import kafka

pytestmark = pytest.mark.java

PROPERTIES = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
GROUPS = ("hand", "static")
PART = b"\0\1" + b"\0\0\0\1" + b"\0\5alpha" + b"\0\0\0\1\0\0\0\0" + b"\xff\xff\xff\xff"
"""An assignment of alpha-0."""


def write_groups(bootstrap: str) -> None:
    """Positions from outside, and a static member that will not be there when the disk is read."""
    host, port = bootstrap.split(":")
    world = World(host, int(port))
    world.topic("alpha", 2)
    world.wait_for_coordinator(*GROUPS)
    answer = world.main.ask(commit("hand", partitions=(0, 1), metadata="note"), 9)
    assert [each.error_code for each in answer.topics[0].partitions] == [0, 0]
    member = world.main.ask(join("static", group_instance_id="one", session_timeout_ms=1_800_000), 9)
    synced = world.main.ask(sync("static", member, {member.member_id: PART}, group_instance_id="one"), 5)
    assert synced.assignment == PART
    stored = commit(
        "static",
        member_id=member.member_id,
        group_instance_id="one",
        generation_id_or_member_epoch=member.generation_id,
    )
    world.main.ask(stored, 9)
    world.close()


def check_groups(bootstrap: str) -> None:
    """What `write_groups` wrote is served: positions, the member with its part, and the fences around it."""
    host, port = bootstrap.split(":")
    world = World(host, int(port))
    world.wait_for_coordinator(*GROUPS)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = ConsumerGroupTopicPartitions("hand", [TopicPartition("alpha", each) for each in range(2)])
    found = admin.list_consumer_group_offsets([asked])["hand"].result(30).topic_partitions
    assert [each.offset for each in found] == [100, 101]
    by_hand = world.main.ask(fetch("hand", 9, {"alpha": (0, 1)}), 9).groups[0].topics[0].partitions
    assert [(each.committed_offset, each.committed_leader_epoch, each.metadata) for each in by_hand] == [
        (100, 3, "note"),
        (101, 3, "note"),
    ]
    described = admin.describe_consumer_groups(["static"])["static"].result(30)
    assert (described.state, [each.group_instance_id for each in described.members]) == (
        ConsumerGroupState.STABLE,
        ["one"],
    )
    back = world.main.ask(join("static", group_instance_id="one", session_timeout_ms=1_800_000), 9)
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert world.main.ask(sync("static", back, group_instance_id="one"), 5).assignment == PART
    assert world.main.ask(heartbeat("static", back, group_instance_id="one"), 4).error_code == 0
    world.close()


def test_kafka_serves_groups_that_headrace_wrote(tmp_path: Path) -> None:
    """B-P06, B-W05: a real Kafka goes on with our `__consumer_offsets`."""
    node = Node(properties=PROPERTIES, directory=tmp_path / "ours")
    with node:
        write_groups(node.bootstrap_servers)
        node.stop()
    shutil.copytree(node.data, tmp_path / "theirs" / "data")
    other = kafka.Kafka(
        tmp_path / "theirs", port=node.port, controller_port=node.controller_port, properties=PROPERTIES
    )
    with other:
        check_groups(other.bootstrap)


def test_headrace_serves_groups_that_kafka_wrote(tmp_path: Path) -> None:
    """B-P06: and we go on with theirs."""
    other = kafka.Kafka(tmp_path / "theirs", properties=PROPERTIES, format_arguments=kafka.plain_features())
    with other:
        write_groups(other.bootstrap)
    node = Node(properties=PROPERTIES, directory=tmp_path / "ours")
    shutil.copytree(other.data, node.data)
    node.port, node.controller_port = other.port, other.controller_port
    with node:
        check_groups(node.bootstrap_servers)


def test_headrace_loads_transactions_in_kafkas_offsets_topic(tmp_path: Path) -> None:
    """E10: committed transactional positions count, aborted ones do not."""
    other = kafka.Kafka(tmp_path / "theirs", properties=PROPERTIES, format_arguments=kafka.plain_features())
    with other:
        admin = AdminClient({"bootstrap.servers": other.bootstrap})
        admin.create_topics([NewTopic("alpha", 2, 1)])["alpha"].result(30)
        host, port = other.bootstrap.split(":")
        world = World(host, int(port))
        world.wait_for_coordinator("txn")
        world.close()
        producer = Producer({"bootstrap.servers": other.bootstrap, "transactional.id": "t"})
        producer.init_transactions(30)
        consumer = Consumer({"bootstrap.servers": other.bootstrap, "group.id": "txn"})
        for offset, ends in ((7, producer.commit_transaction), (9, producer.abort_transaction)):
            producer.begin_transaction()
            producer.produce("alpha", b"x", partition=0)
            producer.send_offsets_to_transaction(
                [TopicPartition("alpha", 0, offset)], consumer.consumer_group_metadata(), 30
            )
            ends(30)
        consumer.close()
    node = Node(properties=PROPERTIES, directory=tmp_path / "ours")
    shutil.copytree(other.data, node.data)
    node.port, node.controller_port = other.port, other.controller_port
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
        asked = ConsumerGroupTopicPartitions("txn", [TopicPartition("alpha", 0)])
        found = admin.list_consumer_group_offsets([asked], require_stable=True)["txn"].result(30)
        assert found.topic_partitions[0].offset == 7
