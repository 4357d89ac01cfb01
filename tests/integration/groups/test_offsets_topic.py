"""The topic that groups live in: made by the first question about a coordinator, as Kafka makes it."""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from headrace.testing import Node
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.integration.groups.scenarios import commit, fetch
from tests.integration.groups.wire_session import World


def test_the_first_question_makes_the_offsets_topic() -> None:
    """B-P06: 50 partitions, compacted, 100 MiB segments; the one who asked need not ask again."""
    with Node(in_process=True) as node:
        host, port = node.bootstrap_servers.split(":")
        world = World(host, int(port))
        answer = world.main.ask(FindCoordinatorRequest(coordinator_keys=("a", "b")), 6)
        assert [(each.key, each.node_id, each.error_code) for each in answer.coordinators] == [("a", 1, 0), ("b", 1, 0)]
        world.close()
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
        topic = admin.list_topics("__consumer_offsets", timeout=30).topics["__consumer_offsets"]
        assert len(topic.partitions) == 50
        resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets")
        settings = admin.describe_configs([resource])[resource].result(30)
        wanted = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
        assert {name: settings[name].value for name in wanted} == wanted


def test_positions_in_a_deleted_topic_are_gone() -> None:
    """PR6, B27: a topic made again under the old name begins without positions."""
    with Node(in_process=True, properties={"offsets.topic.num.partitions": "2"}) as node:
        host, port = node.bootstrap_servers.split(":")
        world = World(host, int(port))
        world.topic("alpha", 2)
        world.topic("beta", 2)
        world.wait_for_coordinator("g")
        for topic in ("alpha", "beta"):
            world.main.ask(commit("g", topic=topic), 9)
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
        admin.delete_topics(["alpha"])["alpha"].result(30)
        admin.create_topics([NewTopic("alpha", 2, 1)])["alpha"].result(30)
        until = time.monotonic() + 20
        while True:
            found = world.main.ask(fetch("g", 9, None), 9).groups[0].topics
            if [each.name for each in found] == ["beta"]:
                break
            assert time.monotonic() < until, found
        world.close()
