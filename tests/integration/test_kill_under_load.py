"""Is anything acknowledged lost, or written twice, when the node is killed under load again and again?

``HEADRACE_KILLS`` sets how often (10; in CI 50); ``HEADRACE_KILL_SEED`` the random moments, printed with a failure.
"""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Node
from tests.support.volumes import volume

KILLS = volume("HEADRACE_KILLS", quick=10, ci=50)
SEED = int(os.environ.get("HEADRACE_KILL_SEED", "20"))
PARTITIONS = 3
MAX_IN_QUEUE = 20_000
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "512",
    "log.flush.offset.checkpoint.interval.ms": "300",
}


@dataclass
class Load:
    """An idempotent producer that numbers what it sends, and notes what was acknowledged and where."""

    bootstrap: str
    topic: str
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    sent: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Send until stopped, then wait until all that was sent is decided."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 40,
                "message.timeout.ms": 300_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        while not self.stopped.is_set():
            for _ in range(50 if len(producer) < MAX_IN_QUEUE else 0):
                producer.produce(
                    self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._delivered
                )
                self.sent += 1
            producer.poll(0.005)
        if producer.flush(120):
            self.failed.append("not everything was delivered within 120 s of the last restart")

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition(), message.offset()] = int(message.value())


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Every (offset, number) of each partition, in the order read."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False, "log_level": 0}
    )
    found: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        for partition in range(PARTITIONS):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            consumer.assign([TopicPartition(topic, partition, low)])
            deadline = time.monotonic() + 60
            while (not found[partition] or found[partition][-1][0] < high - 1) and time.monotonic() < deadline:
                for message in consumer.consume(5_000, 0.5):
                    assert message.error() is None, message.error()
                    found[partition].append((message.offset(), int(message.value())))
    finally:
        consumer.close()
    return found


def test_nothing_acknowledged_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """S1, E1, D5, B-P04: kill -9 at random moments under idempotent load, with restarts on the same directory."""
    rng = random.Random(SEED)
    node = Node(properties=SETTINGS, directory=tmp_path / "node").start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("numbers", PARTITIONS, 1)])["numbers"].result(30)
        load = Load(node.bootstrap_servers, "numbers")
        thread = threading.Thread(target=load.run)
        thread.start()
        try:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.05, 0.6))
                node.kill()
                node.start()
        finally:
            load.stopped.set()
            thread.join()
        assert load.failed == [], f"seed {SEED}"
        found = read_all(node.bootstrap_servers, "numbers")
    finally:
        node.stop()
    for partition, records in found.items():
        by_offset = dict(records)
        numbers = [number for _, number in records]
        lost = {
            where: number
            for where, number in load.acknowledged.items()
            if where[0] == partition and by_offset.get(where[1]) != number
        }
        assert lost == {}, f"seed {SEED}: acknowledged and gone or changed in partition {partition}"
        assert [offset for offset, _ in records] == list(range(len(records))), (
            f"seed {SEED}: gaps in partition {partition}"
        )
        assert numbers == sorted(set(numbers)), f"seed {SEED}: repeated or out of order in partition {partition}"
    assert sum(map(len, found.values())) == load.sent
