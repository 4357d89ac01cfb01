"""Can Apache Kafka and Headrace take over each other's directory: records, group offsets and settings, in both directions?"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.storage.known_logs import KnownLogs
from headrace.storage.os_files import OsFiles
from headrace.testing import Node
from tests.peers import kafka

pytestmark = pytest.mark.java

SHARED = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (3, {"retention.ms": "-1"}),
    "packed": (1, {"retention.ms": "-1", "segment.bytes": "1048576", "index.interval.bytes": "512"}),
    "latest": (1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}),
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


@dataclass
class Content:
    """What a cluster holds, as its clients see it."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)


def fill(bootstrap: str, *, round_number: int) -> None:
    """Topics in the first round, then records in every codec, offsets of two groups, and settings of a topic and of the broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if round_number == 0:
        wanted = [NewTopic(name, count, 1, config=config) for name, (count, config) in TOPICS.items()]
        for made in admin.create_topics(wanted).values():
            made.result(20)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec == "zstd",
                "linger.ms": 5,
            }
        )
        for number in range(60):
            name = ("plain", "packed", "latest")[number % 3]
            producer.produce(
                name,
                key=f"k{number % 7}",
                value=f"{codec} {round_number} {number} " * (1 + number % 20),
                partition=number % TOPICS[name][0],
                headers=[("round", str(round_number).encode())] if number % 5 == 0 else None,
                timestamp=1_795_000_000_000 + number,
            )
        assert producer.flush(20) == 0
    for group in ("readers", f"readers-{round_number}"):
        committing = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        committing.commit(
            offsets=[TopicPartition("plain", 0, 5 + round_number), TopicPartition("packed", 0, 7, metadata="seen")],
            asynchronous=False,
        )
        committing.close()
    changes = [
        ConfigResource(
            ResourceType.TOPIC, "plain", incremental_configs=[_set("max.message.bytes", str(200_000 + round_number))]
        ),
        ConfigResource(
            ResourceType.BROKER, "1", incremental_configs=[_set("log.cleaner.backoff.ms", str(14_000 + round_number))]
        ),
    ]
    for change in changes:
        for done in admin.incremental_alter_configs([change]).values():
            done.result(20)


def _set(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def read(bootstrap: str, *, rounds: int) -> Content:
    """Everything that `fill` wrote in so many rounds."""
    found = Content()
    for name, (count, _) in TOPICS.items():
        found.rows[name] = [row for partition in range(count) for row in _records(bootstrap, name, partition)]
    for group in ("readers", *(f"readers-{number}" for number in range(rounds))):
        asking = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        wanted = [TopicPartition("plain", 0), TopicPartition("packed", 0)]
        for one in asking.committed(wanted, timeout=20):
            found.committed[group, one.topic, one.partition] = one.offset
        asking.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for kind, name in ((ResourceType.TOPIC, "plain"), (ResourceType.TOPIC, "latest"), (ResourceType.BROKER, "1")):
        (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
        found.settings[name] = {
            entry.name: entry.value for entry in future.result(20).values() if entry.source in (1, 2)
        }
    return found


def _records(bootstrap: str, topic: str, partition: int) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reading", "enable.auto.commit": False})
    try:
        lowest, end = _watermarks(consumer, TopicPartition(topic, partition))
        consumer.assign([TopicPartition(topic, partition, lowest)])
        rows: list[Row] = []
        while len(rows) < end - lowest:
            taken = consumer.consume(end - lowest - len(rows), timeout=20)
            assert taken, f"{topic}-{partition}: {len(rows)} of {end - lowest} records came"
            for message in taken:
                assert message.error() is None, message.error()
                headers = tuple((name, value) for name, value in message.headers() or ())
                rows.append(
                    (partition, message.offset(), message.key(), message.value(), headers, message.timestamp()[1])
                )
        return rows
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """The first and the next offset. A broker that has just started may be named as the leader a moment before it leads: then it is asked again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            lowest, end = consumer.get_watermark_offsets(partition, timeout=20)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
        else:
            return lowest, end


def on_kafka(directory: Path, use: Callable[[str], None]) -> None:
    """A Kafka 4.3.1 on a directory, stopped cleanly afterwards. On a slow machine its controller may ask itself too soon, and says so."""
    peer = kafka.Kafka(directory, properties=SHARED, format_arguments=kafka.plain_features())
    with peer as running:
        use(running.bootstrap)
    log = (directory / "kafka.log").read_text()
    told = [line for line in log.splitlines() if " ERROR " in line or " FATAL " in line]
    assert [line for line in told if "apiKey=CONTROLLER_REGISTRATION" not in line] == [], log


def on_headrace(directory: Path, use: Callable[[str], None]) -> None:
    """A node of ours on a directory, stopped cleanly afterwards."""
    with Node(directory=directory, properties=SHARED) as node:
        use(node.bootstrap_servers)


class Tour:
    """What was written and read on the way from one to the other."""

    def __init__(self) -> None:
        self.seen: list[Content] = []
        self.rounds = 0

    def fill(self, bootstrap: str) -> None:
        fill(bootstrap, round_number=self.rounds)
        self.rounds += 1
        self.seen.append(read(bootstrap, rounds=self.rounds))

    def check(self, bootstrap: str) -> None:
        assert read(bootstrap, rounds=self.rounds) == self.seen[-1]

    def check_and_fill(self, bootstrap: str) -> None:
        self.check(bootstrap)
        self.fill(bootstrap)


def test_kafka_takes_over_our_directory_and_gives_it_back(tmp_path: Path) -> None:
    """B-C05, B-S10: a Kafka 4.3.1 on a copy of our cleanly stopped directory serves every record, offset and setting; so do we on its."""
    tour = Tour()
    on_headrace(tmp_path / "ours", tour.fill)
    shutil.copytree(tmp_path / "ours/data", tmp_path / "theirs/data")
    on_kafka(tmp_path / "theirs", tour.check_and_fill)
    shutil.copytree(tmp_path / "theirs/data", tmp_path / "again/data")
    on_headrace(tmp_path / "again", tour.check_and_fill)


def test_kafka_takes_over_our_directory_itself_and_gives_it_back(tmp_path: Path) -> None:
    """B-C05, B-S10: not a copy of it, whose files have other stamps. Kafka passes by our list of logs, and what it wrote to is not as the list says."""
    written = {"plain-0", "plain-1", "packed-0", "latest-0"}
    tour = Tour()
    on_headrace(tmp_path, tour.fill)
    assert believed(tmp_path / "data") >= written
    on_kafka(tmp_path, tour.check_and_fill)
    assert not believed(tmp_path / "data") & written
    on_headrace(tmp_path, tour.check_and_fill)


def believed(data: Path) -> set[str]:
    """The logs that the next start of ours would take as the list tells them."""
    known = KnownLogs(OsFiles(), str(data))
    known.read()
    return {each.name for each in data.iterdir() if known.take(each.name) is not None}


def test_we_take_over_kafkas_directory_and_give_it_back(tmp_path: Path) -> None:
    """B-C05: the other way round, from a Kafka formatted with the features that are not built at 0."""
    tour = Tour()
    on_kafka(tmp_path / "theirs", tour.fill)
    shutil.copytree(tmp_path / "theirs/data", tmp_path / "ours/data")
    on_headrace(tmp_path / "ours", tour.check_and_fill)
    shutil.copytree(tmp_path / "ours/data", tmp_path / "again/data")
    on_kafka(tmp_path / "again", tour.check)


def test_a_directory_of_a_kafka_with_more_features_is_refused(tmp_path: Path) -> None:
    """B-U03: formatted as Kafka does by default, it needs features that are not built: the refusal says how to lower them."""
    from headrace.core.errors import OperatorError

    peer = kafka.Kafka(tmp_path / "theirs")
    peer.format()
    shutil.copytree(tmp_path / "theirs/data", tmp_path / "ours/data")
    with pytest.raises(OperatorError, match=r"group\.version=1.*--feature group\.version=0"):
        Node(directory=tmp_path / "ours", in_process=False).start()
