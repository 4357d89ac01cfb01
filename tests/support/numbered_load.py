"""An idempotent producer that numbers what it sends, and what is found of that afterwards."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PARTITIONS: Final = 3
MAX_IN_QUEUE: Final = 20_000


@dataclass
class Load:
    """An idempotent producer that numbers what it sends, and notes what was acknowledged and where."""

    bootstrap: str
    topic: str
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    sent: int = 0
    longest_gap_s: float = 0.0
    """Between two acknowledgements, once there was one."""
    stopped: threading.Event = field(default_factory=threading.Event)
    _last_at: float | None = None

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
        now = time.monotonic()
        if self._last_at is not None:
            self.longest_gap_s = max(self.longest_gap_s, now - self._last_at)
        self._last_at = now
        if error is not None:
            self.failed.append(str(error))
        elif (
            message.offset() is not None
        ):  # librdkafka may conclude from a later acknowledgement that it was stored, somewhere
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


def judge(load: Load, found: dict[int, list[tuple[int, int]]], *, told: str) -> None:
    """Nothing that was acknowledged is lost or moved, nothing comes twice or out of order. `told` is said with a failure."""
    for partition, records in found.items():
        by_offset = dict(records)
        numbers = [number for _, number in records]
        lost = {
            where: number
            for where, number in load.acknowledged.items()
            if where[0] == partition and by_offset.get(where[1]) != number
        }
        assert lost == {}, f"{told}: acknowledged and gone or changed in partition {partition}"
        assert [offset for offset, _ in records] == list(range(len(records))), f"{told}: gaps in partition {partition}"
        assert numbers == sorted(set(numbers)), f"{told}: repeated or out of order in partition {partition}"
    assert sum(map(len, found.values())) == load.sent
