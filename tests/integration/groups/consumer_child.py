"""A consumer in a process of its own, that a test may stop or kill: `python -m tests.integration.groups.consumer_child SETTINGS`.

SETTINGS is JSON: library, bootstrap, group, topic, instance (or null), strategy. It prints one JSON line for each thing that happens: `assigned`, `revoked`, `lost`
with partitions, `read` with a partition, an offset and a value. It commits what it has read, and leaves at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

SESSION_MS = 2_000
HEARTBEAT_MS = 200
_stopping = False


def tell(what: str, **details: Any) -> None:
    """One line for the test."""
    sys.stdout.write(json.dumps({"what": what, **details}) + "\n")
    sys.stdout.flush()


def stop(_number: int, _frame: object) -> None:
    """SIGTERM: leave the group and end."""
    global _stopping
    _stopping = True


def numbers(partitions: Any) -> list[int]:
    """The indexes of partitions of one topic."""
    return sorted(each.partition for each in partitions)


def run_confluent(settings: dict[str, Any]) -> None:
    """librdkafka through confluent-kafka."""
    from confluent_kafka import Consumer

    options = {
        "bootstrap.servers": settings["bootstrap"],
        "group.id": settings["group"],
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": settings["strategy"],
        **({"group.instance.id": settings["instance"]} if settings["instance"] else {}),
    }
    consumer = Consumer(options)
    consumer.subscribe(
        [settings["topic"]],
        on_assign=lambda _, partitions: tell("assigned", partitions=numbers(partitions)),
        on_revoke=lambda _, partitions: tell("revoked", partitions=numbers(partitions)),
        on_lost=lambda _, partitions: tell("lost", partitions=numbers(partitions)),
    )
    while not _stopping:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            tell("read", partition=message.partition(), offset=message.offset(), value=message.value().decode())
            consumer.commit(message, asynchronous=True)
    consumer.close()


def run_kafka_python(settings: dict[str, Any]) -> None:
    """kafka-python."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        """Tells the test."""

        def on_partitions_revoked(self, revoked: Any) -> None:
            """They go."""
            tell("revoked", partitions=numbers(revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            """They come."""
            tell("assigned", partitions=numbers(assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **({"group_instance_id": settings["instance"]} if settings["instance"] else {}),
    )
    consumer.subscribe([settings["topic"]], listener=Listener())
    while not _stopping:
        found = consumer.poll(timeout_ms=100)
        for partition, records in found.items():
            for record in records:
                tell("read", partition=partition.partition, offset=record.offset, value=record.value.decode())
        if found:  # the positions of all partitions: not before all of them were told
            consumer.commit()
    consumer.close()


async def _aiokafka(settings: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        """Tells the test."""

        async def on_partitions_revoked(self, revoked: Any) -> None:
            """They go."""
            tell("revoked", partitions=numbers(revoked))

        async def on_partitions_assigned(self, assigned: Any) -> None:
            """They come."""
            tell("assigned", partitions=numbers(assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_instance_id=settings["instance"],
    )
    consumer.subscribe([settings["topic"]], listener=Listener())
    await consumer.start()
    while not _stopping:
        found = await consumer.getmany(timeout_ms=100)
        for partition, records in found.items():
            for record in records:
                tell("read", partition=partition.partition, offset=record.offset, value=record.value.decode())
        if found:
            await consumer.commit()
    await consumer.stop()


def main() -> None:
    """Run until SIGTERM."""
    signal.signal(signal.SIGTERM, stop)
    settings = json.loads(sys.argv[1])
    if settings["library"] == "confluent":
        run_confluent(settings)
    elif settings["library"] == "kafka-python":
        run_kafka_python(settings)
    else:
        asyncio.run(_aiokafka(settings))


if __name__ == "__main__":
    main()
