"""Does the data source work against Apache Kafka, and does it read what Spark's own connector would?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headrace.client import offsets
from headrace.client.blocking import BlockingClient
from headrace.core.ids import TopicPartition
from tests.peers.kafka import Kafka
from tests.spark.conftest import Topics, run_stream, values, with_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]


@pytest.fixture
def kafka_topics(shared_kafka: Kafka) -> Iterator[Topics]:
    """Topics of an Apache Kafka."""
    servers = f"127.0.0.1:{shared_kafka.port}"
    with BlockingClient(servers) as client:
        yield Topics(servers, client)


def test_batch_and_stream_on_apache_kafka(spark: SparkSession, kafka_topics: Topics, tmp_path: Path) -> None:
    """B-W08: write with zstd, stream from topic to topic in bounded batches, read back, all on Apache Kafka 4.3.1."""
    source, target = kafka_topics.make(2), kafka_topics.make()
    rows = spark.sql("SELECT CAST(id AS STRING) AS key, concat('v', id) AS value FROM range(1000)")
    options = {"topic": source, "kafka_compression_type": "zstd"}
    with_options(rows.write, kafka_topics.servers, options).mode("append").save()
    wanted = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "400", "groupId": source}
    stream = with_options(spark.readStream, kafka_topics.servers, wanted).load().selectExpr("key", "value")
    progress = run_stream(
        stream, lambda writer: with_options(writer, kafka_topics.servers, {"topic": target}).start(), tmp_path
    )
    assert len(progress) == 3
    committed = kafka_topics.client.run(offsets.fetch_committed, source)
    ends = kafka_topics.client.list_offsets({TopicPartition(source, each): offsets.LATEST for each in range(2)})
    assert committed == {each: offsets.CommittedOffset(offset=end.offset) for each, end in ends.items()}
    found = with_options(spark.read, kafka_topics.servers, {"subscribe": target}).load()
    assert sorted(values(found)) == sorted(f"v{each}" for each in range(1000))


def test_transactions_of_another_makers_producer(spark: SparkSession, kafka_topics: Topics) -> None:
    """KIP-98: read_committed leaves out aborted and open transactions, read_uncommitted shows them; markers are never rows."""
    topic = kafka_topics.make()
    producer = Producer({"bootstrap.servers": kafka_topics.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for value, ending in (("kept", "commit"), ("dropped", "abort"), ("kept too", "commit"), ("open", "")):
        producer.begin_transaction()
        producer.produce(topic, value.encode())
        producer.flush(30)
        if ending == "commit":
            producer.commit_transaction(30)
        elif ending == "abort":
            producer.abort_transaction(30)
    reader = with_options(spark.read, kafka_topics.servers, {"subscribe": topic})
    assert values(reader.load()) == ["kept", "dropped", "kept too", "open"]
    committed = reader.option("kafka.isolation.level", "read_committed")
    assert values(committed.load()) == ["kept", "kept too"]
    producer.abort_transaction(30)
