"""Real consumers in processes of their own: they join, leave and are killed, and the others take over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing import Node
from tests.integration.groups.group_of_children import GroupUnderTest

PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "200",
    "offsets.topic.num.partitions": "4",
}
LIBRARIES = ["confluent", "kafka-python", "aiokafka"]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node for all groups of this file."""
    with Node(properties=PROPERTIES) as running:
        yield running


def committed(bootstrap: str, name: str, partitions: int) -> list[int]:
    """The group's committed positions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = ConsumerGroupTopicPartitions(name, [TopicPartition(name, p) for p in range(partitions)])
    found = admin.list_consumer_group_offsets([asked])[name].result(30)
    return [each.offset for each in found.topic_partitions]


@pytest.mark.parametrize("library", LIBRARIES)
def test_members_join_leave_and_are_killed(node: Node, library: str) -> None:
    """B-P06, B-W06, S86, G1, GL1: every value is read, and what is left of the group shares everything."""
    with GroupUnderTest(node.bootstrap_servers, f"life-{library}", library=library) as group:
        group.send(60)
        one, two = group.start(), group.start()
        assert sorted(map(len, group.settle(one, two))) == [3, 3]
        three = group.start()
        assert sorted(map(len, group.settle(one, two, three))) == [2, 2, 2]
        group.send(60)
        one.kill()
        group.settle(two, three)
        group.send(60)
        three.leave()
        assert group.settle(two) == [frozenset(range(6))]
        group.wait_until_read()
        two.leave()
        assert committed(node.bootstrap_servers, group.name, 6) == [30] * 6


def test_members_of_all_libraries_share_one_group(node: Node) -> None:
    """B-W06, G1: roundrobin is what all three know; whoever leads, the others understand its assignment."""
    with GroupUnderTest(node.bootstrap_servers, "mixed", library="confluent", strategy="roundrobin") as group:
        group.send(60)
        members = [group.start(library=library) for library in LIBRARIES]
        assert sorted(map(len, group.settle(*members))) == [2, 2, 2]
        members[0].kill()
        group.settle(*members[1:])
        group.send(60)
        group.wait_until_read()


def test_cooperative_members_keep_what_they_have(node: Node) -> None:
    """B-P06: with cooperative-sticky a newcomer takes only what the others give up (KIP-429)."""
    with GroupUnderTest(
        node.bootstrap_servers, "cooperative", library="confluent", strategy="cooperative-sticky"
    ) as group:
        group.send(30)
        one, two = group.start(), group.start()
        before = group.settle(one, two)
        given_up = [one.given_up(), two.given_up()]
        three = group.start()
        after = group.settle(one, two, three)
        for member, had, has, gave in zip((one, two), before, after, given_up, strict=False):
            assert has < had
            assert member.given_up() - gave == had - has
        one.kill()
        group.settle(two, three)
        group.wait_until_read()


def test_a_static_member_keeps_its_partitions_over_a_restart(node: Node) -> None:
    """KIP-345: killed and started again within its session, it gets what it had, and nobody else notices."""
    with GroupUnderTest(node.bootstrap_servers, "static", library="confluent") as group:
        group.send(30)
        one, two = group.start("one"), group.start("two")
        shares = group.settle(one, two)
        group.wait_until_read()
        events = len([event for event in two.events if event["what"] != "read"])
        one.kill()
        back = group.start("one")
        assert group.settle(back, two) == shares
        assert len([event for event in two.events if event["what"] != "read"]) == events


def test_positions_survive_a_restart_of_the_node() -> None:
    """G4, H14: clean stop and kill; a group goes on where it committed."""
    with Node(properties=PROPERTIES) as node:
        with GroupUnderTest(node.bootstrap_servers, "survivor", library="confluent") as group:
            group.send(30)
            one = group.start()
            group.settle(one)
            group.wait_until_read()
            one.leave()
            assert committed(node.bootstrap_servers, group.name, 6) == [5] * 6
        node.stop()
        node.start()
        assert committed(node.bootstrap_servers, "survivor", 6) == [5] * 6
        node.kill()
        node.start()
        assert committed(node.bootstrap_servers, "survivor", 6) == [5] * 6


def test_members_go_on_when_the_coordinator_was_killed() -> None:
    """S86, GL1: the group outlives its coordinator's process, and no value is lost."""
    with (
        Node(properties=PROPERTIES) as node,
        GroupUnderTest(node.bootstrap_servers, "orphans", library="confluent") as group,
    ):
        group.send(30)
        one, two = group.start(), group.start()
        group.settle(one, two)
        group.wait_until_read()
        node.kill()
        node.start()
        group.send(30)
        group.wait_until_read()
        group.settle(one, two)
