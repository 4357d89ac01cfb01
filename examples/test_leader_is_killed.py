"""A test of one's own: what becomes of my topics when the active controller is killed?

pip install headrace pytest confluent-kafka
pytest examples/test_leader_is_killed.py
"""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Cluster


def make_and_use(bootstrap_servers: str, topic: str) -> None:
    """A topic is made and takes a record; both are acknowledged."""
    client = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=60)[topic].result(90)
    producer = Producer(client)
    producer.produce(topic, b"hello")
    assert producer.flush(60) == 0


def test_topics_survive_the_active_controller() -> None:
    """Three controllers and a broker, real processes; one topic before the kill, one after it."""
    with Cluster(controllers=3, brokers=1) as cluster:
        make_and_use(cluster.bootstrap_servers, "before")
        killed = cluster.leader()
        killed.kill()
        make_and_use(cluster.bootstrap_servers, "after")
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}).list_topics(timeout=60)
        assert {"before", "after"} <= set(topics.topics)
        assert cluster.leader().node_id != killed.node_id
