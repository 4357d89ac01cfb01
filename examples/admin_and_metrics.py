"""Make a topic, change its settings, and look at the node's metrics, with the client that comes along.

pip install headrace
python examples/admin_and_metrics.py
"""

from __future__ import annotations

from headrace.client.admin_configs import ConfigSource, Resource, ResourceType, alter, alter_configs, describe_configs
from headrace.client.admin_quorum import describe_quorum
from headrace.client.admin_topics import NewTopic, create_topics, describe_topics
from headrace.client.blocking import BlockingClient
from headrace.core.errors import PeerError
from headrace.testing import Node

METRICS = (
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_server_replicamanager_partitioncount",
)


def main() -> None:
    """Each conversation of `headrace.client` is a function that `run` holds with the cluster; `AsyncClient` runs the same ones."""
    with (
        Node(metrics=True) as node,
        BlockingClient.from_properties({"bootstrap.servers": node.bootstrap_servers}) as client,
    ):
        client.run(create_topics, [NewTopic(name="orders", partitions=4, configs={"retention.ms": "3600000"})])
        orders = Resource(ResourceType.TOPIC, "orders")
        client.run(alter_configs, {orders: alter({"retention.ms": "7200000"})})

        topic = client.run(describe_topics, ["orders"])["orders"]
        if isinstance(topic, PeerError):
            raise topic
        settings = client.run(describe_configs, [orders])[orders]
        if isinstance(settings, PeerError):
            raise settings
        changed = {each.name: each.value for each in settings if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
        print(f"{topic.name}: {len(topic.partitions)} partitions, {changed}")
        quorum = client.run(describe_quorum)
        print(f"node {quorum.leader_id} leads the quorum in epoch {quorum.leader_epoch}")
        seen = node.metrics()
        for name in METRICS:
            print(f"{name} {seen[name]:.0f}")


if __name__ == "__main__":
    main()
