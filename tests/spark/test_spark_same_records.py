"""Does our sink write what Spark's own Kafka connector writes, to an Apache Kafka?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client import admin_topics, offsets
from headrace.client.blocking import BlockingClient
from headrace.core.ids import TopicPartition, Uuid
from tests.peers.kafka import Kafka
from tests.support.metadata_load import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]
FORMATS = ("headrace", "kafka")
PARTITIONS = 5
KEYED = "CASE id % 3 WHEN 0 THEN concat('k', id) WHEN 1 THEN repeat('ü', id) ELSE '' END AS key"
VALUE = "CASE WHEN id % 4 = 0 THEN NULL WHEN id % 4 = 1 THEN '' ELSE concat('v', id) END AS value"
HEADERS = (
    "CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN array() "
    "WHEN 2 THEN array(named_struct('key', 'a', 'value', X'00FF'), named_struct('key', 'a', 'value', CAST(NULL AS BINARY))) "
    "ELSE array(named_struct('key', '', 'value', X'')) END"
)
HEADER_TYPE = "array<struct<key:string,value:binary>>"
# A name, the columns of range(200), options. Rows have a key or a partition, so that each has its place.
WRITES: list[tuple[str, str, dict[str, str]]] = [
    ("text", f"{KEYED}, {VALUE}", {}),
    ("bytes", f"encode(CAST(id AS STRING), 'UTF-8') AS key, encode({VALUE.removesuffix(' AS value')}, 'UTF-8') AS value", {}),
    ("headers", f"{KEYED}, {VALUE}, CAST({HEADERS} AS {HEADER_TYPE}) AS headers", {}),
    ("partition", f"{KEYED}, {VALUE}, CAST(CASE WHEN id % 2 = 0 THEN id % {PARTITIONS} END AS INT) AS partition", {}),
    ("no-key", f"{VALUE}, CAST(id % {PARTITIONS} AS INT) AS partition", {}),
    ("null-key", f"CAST(NULL AS STRING) AS key, {VALUE}, CAST(id % 3 AS INT) AS partition", {}),
    ("others", f"{KEYED}, {VALUE}, id AS other, current_timestamp() AS timestamp, CAST(id AS DOUBLE) AS offset", {}),
    ("option-first", f"'not a topic!' AS topic, {KEYED}, {VALUE}", {}),
    ("upper", f"{KEYED}, {VALUE}", {"kafka.ACKS": "1", "kafka.compression.type": "zstd"}),
    ("lz4", f"{KEYED}, {VALUE}", {"kafka.compression.type": "lz4", "kafka.batch.size": "200"}),
    ("spaces", f"{KEYED}, {VALUE}", {"kafka.linger.ms": "5"}),
]  # fmt: skip
# A name, the columns of range(3), options; {topic} is a topic that exists.
REFUSED: list[tuple[str, str, dict[str, str]]] = [
    ("no-value", "'k' AS key", {"topic": "{topic}"}),
    ("no-topic", "'v' AS value", {}),
    ("null-topic", "CAST(NULL AS STRING) AS topic, 'v' AS value", {}),
    ("value-type", "id AS value", {"topic": "{topic}"}),
    ("key-type", "id AS key, 'v' AS value", {"topic": "{topic}"}),
    ("topic-type", "id AS topic, 'v' AS value", {}),
    ("partition-type", "id AS partition, 'v' AS value", {"topic": "{topic}"}),
    ("headers-type", "map('a', 'b') AS headers, 'v' AS value", {"topic": "{topic}"}),
    ("partition-below", "-1 AS partition, 'v' AS value", {"topic": "{topic}"}),
    ("partition-above", "99 AS partition, 'v' AS value", {"topic": "{topic}", "kafka.max.block.ms": "500"}),
    ("header-without-key", f"CAST(array(named_struct('key', CAST(NULL AS STRING), 'value', X'')) AS {HEADER_TYPE}) AS headers, 'v' AS value", {"topic": "{topic}"}),
    ("bad-topic", "'not a topic!' AS topic, 'v' AS value", {"kafka.max.block.ms": "500"}),
    ("too-large", "repeat('x', 1200000) AS value", {"topic": "{topic}"}),
    ("serializer", "'v' AS value", {"topic": "{topic}", "kafka.value.serializer": "x"}),
    ("acks", "'v' AS value", {"topic": "{topic}", "kafka.acks": "two"}),
    ("codec", "'v' AS value", {"topic": "{topic}", "kafka.compression.type": "rar"}),
    ("idempotence", "'v' AS value", {"topic": "{topic}", "kafka.acks": "0", "kafka.enable.idempotence": "true"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows_of_kafka(shared_kafka: Kafka) -> str:
    """The address of a Kafka. Whoever asks for this has Spark's own connector in the session."""
    return f"127.0.0.1:{shared_kafka.port}"


def make_topics(servers: str, *names: str) -> None:
    """New topics that the broker leads already.

    Kafka's producer sends its first two batches one right after the other. A Kafka that begins to lead between them refuses
    the first and takes the second as the first of a producer that it does not know; the first is out of order from then on.
    """
    wanted = [admin_topics.NewTopic(name=name, partitions=PARTITIONS, replication_factor=1) for name in names]
    ends = {TopicPartition(name, number): offsets.LATEST for name in names for number in range(PARTITIONS)}
    with BlockingClient(servers) as client:
        made = client.run(admin_topics.create_topics, wanted)
        assert all(isinstance(each, Uuid) for each in made.values()), made
        wait_until(
            lambda: all(
                isinstance(each, offsets.ListedOffset) for each in client.run(offsets.list_offsets, ends).values()
            )
        )


def records(spark: SparkSession, servers: str, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """What is in each partition, in order, read by Spark's own connector."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    rows = reader.option("includeHeaders", "true").load().collect()
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):  # Spark would read twice to sort
        key, value = (None if each is None else bytes(each) for each in (row["key"], row["value"]))
        headers = [(each["key"], each["value"] and bytes(each["value"])) for each in row["headers"] or ()]
        found.setdefault(row["partition"], []).append((key, value, headers))
    return found


def is_empty(servers: str, topic: str) -> bool:
    """Whether nothing was ever written to it."""
    wanted = {TopicPartition(topic, number): offsets.LATEST for number in range(PARTITIONS)}
    with BlockingClient(servers) as client:
        return not any(each.offset for each in client.list_offsets(wanted).values())


@pytest.mark.parametrize(("name", "columns", "options"), WRITES, ids=[each[0] for each in WRITES])
def test_the_records_are_those_of_sparks_connector(
    spark: SparkSession, rows_of_kafka: str, name: str, columns: str, options: dict[str, str]
) -> None:
    """Keys, values, headers and their order, each in the partition that Kafka's own producer chooses."""
    found = []
    for source in FORMATS:
        topic = f"written-{name}-by-{source}"
        make_topics(rows_of_kafka, topic)
        rows = spark.sql(f"SELECT {columns} FROM range(0, 200, 1, 1)")
        write(rows, source, rows_of_kafka, {**options, "topic": f" {topic} " if name == "spaces" else topic})
        found.append(records(spark, rows_of_kafka, topic))
    assert sum(len(each) for each in found[0].values()) == 200
    assert found[0] == found[1]


def test_rows_go_to_the_topics_that_their_column_names(spark: SparkSession, rows_of_kafka: str) -> None:
    """Without the option, each row's own topic; keyless rows go to any partition, none is lost."""
    for source in FORMATS:
        topics = [f"column-{number}-by-{source}" for number in range(2)]
        make_topics(rows_of_kafka, *topics)
        rows = spark.sql(f"SELECT concat('column-', id % 2, '-by-{source}') AS topic, CAST(id AS STRING) AS value FROM range(0, 90, 1, 2)")  # fmt: skip
        write(rows, source, rows_of_kafka, {})
        for number, topic in enumerate(topics):
            written = [each for part in records(spark, rows_of_kafka, topic).values() for each in part]
            assert Counter(value for _, value, _ in written) == Counter(b"%d" % n for n in range(90) if n % 2 == number)


@pytest.mark.parametrize(("name", "columns", "options"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_sparks_connector_refuses_is_refused(
    spark: SparkSession, rows_of_kafka: str, name: str, columns: str, options: dict[str, str]
) -> None:
    """By both, and nothing is written."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    topic = f"refused-{name}"
    make_topics(rows_of_kafka, topic)
    rows = spark.sql(f"SELECT {columns} FROM range(0, 3, 1, 1)")
    for source in FORMATS:
        said = {key: value.replace("{topic}", topic) for key, value in options.items()}
        with pytest.raises((PySparkException, Py4JJavaError)):
            write(rows, source, rows_of_kafka, said)
    assert is_empty(rows_of_kafka, topic)


def test_a_stream_writes_the_records_of_sparks_connector(
    spark: SparkSession, rows_of_kafka: str, tmp_path: Path
) -> None:
    """From one topic to another in several micro-batches."""
    make_topics(rows_of_kafka, "stream-in", *(f"stream-out-{source}" for source in FORMATS))
    rows = spark.sql(f"SELECT {KEYED}, {VALUE}, CAST({HEADERS} AS {HEADER_TYPE}) AS headers FROM range(0, 300, 1, 1)")
    write(rows, "kafka", rows_of_kafka, {"topic": "stream-in"})
    found = []
    for source in FORMATS:
        reader = spark.readStream.format(source).option("kafka.bootstrap.servers", rows_of_kafka)
        wanted = {"subscribe": "stream-in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "120", "includeHeaders": "true"}  # fmt: skip
        stream = reader.options(**wanted).load().select("key", "value", "headers", "partition")
        writer = stream.writeStream.format(source).option("kafka.bootstrap.servers", rows_of_kafka)
        writer = writer.option("topic", f"stream-out-{source}").option("checkpointLocation", str(tmp_path / source))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        found.append(records(spark, rows_of_kafka, f"stream-out-{source}"))
    assert found[0] == found[1] == records(spark, rows_of_kafka, "stream-in")


def write(rows: DataFrame, source: str, servers: str, options: dict[str, str]) -> None:
    """Append the rows."""
    writer = rows.write.format(source).option("kafka.bootstrap.servers", servers)
    writer.options(**options).mode("append").save()
