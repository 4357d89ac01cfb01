"""What becomes of my records when the leader of their partition is cut off from the other brokers?

pip install headrace confluent-kafka
python examples/cut_off_leader.py
"""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Cluster

TOPIC = "orders"
QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def partition_of(address: str) -> tuple[int, list[int]]:
    """Leader and in-sync replicas, as the broker there has them."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    found = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions[0]
    return found.leader, sorted(found.isrs)


def write(address: str, text: str) -> None:
    """A record that every in-sync replica acknowledges, by a client that begins at this broker."""
    producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 0})
    producer.produce(TOPIC, text)
    assert producer.flush(120) == 0
    print(f"{text}: acknowledged")


def main() -> None:
    """Write, cut, write, heal."""
    with Cluster(nodes=3, properties=QUICK) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1)], request_timeout=60)[TOPIC].result(90)
        write(cluster.bootstrap_servers, "before the cut")
        old, _ = partition_of(cluster.bootstrap_servers)
        others = [node_id for node_id in cluster.members if node_id != old]
        near = f"127.0.0.1:{cluster[others[0]].port}"  # on the side of the majority
        cluster.partition(old, others)
        while partition_of(near)[0] in (old, -1):
            time.sleep(0.1)
        print("another node leads")
        write(near, "during the cut")
        cluster.heal()
        while partition_of(near)[1] != sorted(cluster.members):
            time.sleep(0.1)
        print("after it all three nodes have every record")


if __name__ == "__main__":
    main()
