"""Produce and consume with confluent-kafka, against a node that lives as long as this program.

pip install headrace confluent-kafka
python examples/produce_and_consume.py
"""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from headrace.testing import Node

ORDERS = {"a-1": "2 apples", "b-7": "1 pear", "a-2": "3 plums"}


def produce(bootstrap_servers: str) -> None:
    """Write each order under its number; the topic is made by its first use."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    for number, order in ORDERS.items():
        producer.produce("orders", key=number, value=order)
    if producer.flush(30):
        raise SystemExit("not everything was acknowledged")


def consume(bootstrap_servers: str, count: int) -> dict[str, str]:
    """Read as the first member of a group, from the beginning, and commit."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "packers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    try:
        messages = consumer.consume(count, timeout=30)
        consumer.commit(asynchronous=False)
        return {message.key().decode(): message.value().decode() for message in messages}
    finally:
        consumer.close()


def main() -> None:
    """A node in a child process; its data are gone at the end."""
    with Node() as node:
        produce(node.bootstrap_servers)
        for number, order in consume(node.bootstrap_servers, len(ORDERS)).items():
            print(f"{number}: {order}")


if __name__ == "__main__":
    main()
