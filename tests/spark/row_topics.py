"""Topics of an Apache Kafka for a comparison of rows: what a record may be, and what a log may lack."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer

from headrace.client import admin_configs, admin_topics, offsets
from headrace.client.admin_configs import Resource, ResourceType
from headrace.client.blocking import BlockingClient
from headrace.core.ids import TopicPartition, Uuid

BASE_MS: Final = 1_700_000_000_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PLAIN: Final = tuple(f"rows-{codec}" for codec in CODECS)
APPENDED, TRANSACTIONS, HANGING = "rows-appended", "rows-transactions", "rows-hanging"
COMPACTED, TRIMMED, EMPTY = "rows-compacted", "rows-trimmed", "rows-empty"
TOPICS: Final = (*PLAIN, APPENDED, TRANSACTIONS, HANGING, COMPACTED, TRIMMED, EMPTY)
_PARTITIONS: Final = {**dict.fromkeys(PLAIN, 3), TRANSACTIONS: 2, HANGING: 1, COMPACTED: 2, EMPTY: 2}
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    APPENDED: {"message.timestamp.type": "LogAppendTime"},
    COMPACTED: {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"},
}
_TRIMMED_TO: Final = 11
_COMPACTED_TO: Final = 30
_PATIENCE_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The edges of one partition: the first offset, the end, and the end of what is committed."""

    first: int
    end: int


def make_topics(servers: str, client: BlockingClient) -> dict[TopicPartition, Log]:
    """Make and fill all `TOPICS`; the edges of their partitions."""
    wanted = [
        admin_topics.NewTopic(
            name=name,
            partitions=_PARTITIONS.get(name, 1),
            replication_factor=1,
            configs={"retention.ms": "-1", **_SETTINGS.get(name, {})},
        )
        for name in TOPICS
    ]
    made = client.run(admin_topics.create_topics, wanted)
    assert all(isinstance(each, Uuid) for each in made.values()), made
    _clean_often(client)
    for codec, name in zip(CODECS, PLAIN, strict=True):
        _fill(servers, name, counts=(41, 9, 0), codec=codec)
    _fill(servers, APPENDED, counts=(20,), codec="lz4")
    _fill(servers, TRIMMED, counts=(30,), codec="none")
    client.run(offsets.delete_records, {TopicPartition(TRIMMED, 0): _TRIMMED_TO})
    _fill_compacted(servers)
    _run_transactions(servers)
    _wait_for_gaps(client)
    return edges(client)


def edges(client: BlockingClient) -> dict[TopicPartition, Log]:
    """The first offset and the end of each partition of `TOPICS`."""
    partitions = [TopicPartition(name, each) for name in TOPICS for each in range(_PARTITIONS.get(name, 1))]
    first = client.list_offsets(dict.fromkeys(partitions, offsets.EARLIEST))
    end = client.list_offsets(dict.fromkeys(partitions, offsets.LATEST))
    return {each: Log(first=first[each].offset, end=end[each].offset) for each in partitions}


def _clean_often(client: BlockingClient) -> None:
    """The log cleaner looks each 50 ms, not each 15 s."""
    _alter(client, Resource(kind=ResourceType.BROKER, name=""), {"log.cleaner.backoff.ms": "50"})


def _alter(client: BlockingClient, where: Resource, settings: Mapping[str, str]) -> None:
    done = client.run(admin_configs.alter_configs, {where: admin_configs.alter(settings)})
    assert not any(done.values()), done


def _fill(servers: str, topic: str, *, counts: Sequence[int], codec: str) -> None:
    """`counts` records for the partitions, in batches of seven, their times not in order: null, empty, short and long, headers of all kinds."""
    producer = Producer(
        {"bootstrap.servers": servers, "compression.type": codec, "batch.num.messages": 7, "linger.ms": 50}
    )
    for partition, count in enumerate(counts):
        for number in range(count):
            producer.produce(
                topic,
                partition=partition,
                key=(None, b"", f"key {number}".encode())[number % 3],
                value=(None, b"", b"short", b"long %d " % number * 40, bytes(range(256)))[number % 5],
                timestamp=BASE_MS + 10 * number + (25 if number % 4 == 0 else 0),
                headers=_headers(number),
            )
    assert producer.flush(60) == 0


def _headers(number: int) -> list[tuple[str, bytes | None]]:
    """None, one, twice the same name, null and empty values."""
    several: list[list[tuple[str, bytes | None]]] = [
        [],
        [("one", b"1")],
        [("twice", b"a"), ("twice", None), ("", b"")],
        [("höher", "ü".encode())],
    ]
    return several[number % len(several)]


def _fill_compacted(servers: str) -> None:
    """Few keys, many values, tombstones among them; the times make a new segment every fifth record."""
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 3, "linger.ms": 20})
    for number in range(60):
        for partition in range(_PARTITIONS[COMPACTED]):
            value = None if number % 13 == 5 else b"v%d" % number
            producer.produce(
                COMPACTED, value, b"k%d" % (number % 7), partition=partition, timestamp=BASE_MS + 250 * number
            )
    assert producer.flush(60) == 0


def _wait_for_gaps(client: BlockingClient) -> None:
    """Until the cleaner has taken records out of both partitions; from then on it leaves them alone."""
    until = time.monotonic() + _PATIENCE_S
    while max(_sizes(client)) > _COMPACTED_TO:
        assert time.monotonic() < until, "Kafka's cleaner did not compact the topic"
        time.sleep(0.1)
    _alter(client, Resource(kind=ResourceType.TOPIC, name=COMPACTED), {"cleanup.policy": "delete"})
    before, now = [0], _sizes(client)
    while before != now:  # a pass that had begun may end
        time.sleep(0.5)
        before, now = now, _sizes(client)


def _sizes(client: BlockingClient) -> list[int]:
    return [_size(client, each) for each in range(_PARTITIONS[COMPACTED])]


def _size(client: BlockingClient, partition: int) -> int:
    from headrace.arrow.read import TopicRange, read_range

    end = client.list_offsets({TopicPartition(COMPACTED, partition): offsets.LATEST})
    whole = TopicRange(
        topic=COMPACTED, partition=partition, start=0, end=end[TopicPartition(COMPACTED, partition)].offset
    )
    return sum(rows.num_rows for rows in read_range(client, whole))


def _run_transactions(servers: str) -> None:
    """Committed and aborted ones of two producers, interleaved with records of none; one topic ends with a transaction that stays open."""
    producers = [_transactional(servers, f"rows-{number}") for number in range(3)]
    plain = Producer({"bootstrap.servers": servers})
    for number in range(12):
        for index, producer in enumerate(producers[:2]):
            producer.begin_transaction()
            for each in range(3):
                producer.produce(
                    TRANSACTIONS,
                    f"{index} {number} {each}".encode(),
                    partition=(index + each) % 2,
                    timestamp=BASE_MS + number,
                )
        plain.produce(TRANSACTIONS, b"plain %d" % number, partition=number % 2, timestamp=BASE_MS + number)
        plain.flush(60)
        for index, producer in enumerate(producers[:2]):
            producer.flush(60)
            if (number + index) % 3:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    _leave_open(producers[2])


def _leave_open(producer: Producer) -> None:
    """Two transactions that end, and a third that does not."""
    for number in range(3):
        producer.begin_transaction()
        for each in range(4):
            producer.produce(HANGING, f"{number} {each}".encode(), partition=0, timestamp=BASE_MS + 10 * number + each)
        producer.flush(60)
        if number == 0:
            producer.commit_transaction(60)
        elif number == 1:
            producer.abort_transaction(60)
    _OPEN.append(producer)


_OPEN: Final[list[Producer]] = []
"""A producer that is dropped would abort its transaction."""


def _transactional(servers: str, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": 900_000, "log_level": 0}
    )
    producer.init_transactions(60)
    return producer
