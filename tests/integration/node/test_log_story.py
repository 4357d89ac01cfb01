"""What the log of a node says of an ordinary day, at the level that it has with a properties file."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka import Consumer, Producer

from headrace.testing.node import Node


def told(node: Node) -> list[str]:
    """The lines at INFO so far, without their times."""
    lines = (node.directory / "node.log").read_text().splitlines()
    return [found[1] for line in lines if (found := re.fullmatch(r"\[[^]]*\] INFO (.*) \(headrace\.server\)", line))]


def test_leaders_topics_and_groups_are_in_the_log(tmp_path: Path) -> None:
    """B-R19, G1: who leads, what was made, which group is in which generation; nothing of it is told again after a restart."""
    with Node(directory=tmp_path) as node:
        settings = {"bootstrap.servers": node.bootstrap_servers, "log_level": 0}
        producer = Producer(settings)
        producer.produce("days", b"monday")
        assert producer.flush(30) == 0
        consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["days"])
        assert consumer.consume(1, timeout=30)
        consumer.close()
        lines = told(node)
        for line in (
            "this node leads the metadata quorum in epoch 1",
            "broker 1 is unfenced",
            "topics created: days (1 partitions)",
            "group readers rebalances: generation 1 with 1 members",
            "group readers is empty",
        ):
            assert lines.count(line) == 1, (line, lines)
        node.stop()
        node.start()
        again = told(node)  # a log of its own
        assert "broker 1 is unfenced" in again
        assert not [line for line in again if "created" in line]
