"""What do the Spark tests share? One session, one node, and topics of their own."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.core.ids import Uuid
from headrace.records.record import NewRecord, build_batch
from headrace.testing import Node
from tests.peers import spark_classes, spark_connector
from tests.peers.kafka import is_available
from tests.support.metadata_load import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAVA_OPTIONS = spark_classes.java_options()
SPARKS_CONNECTOR = "rows_of_kafka"
"""The fixture of tests that compare with Spark's own Kafka connector."""
_NUMBERS = count()


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark and its workers say."""
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, spark_log: Path) -> Iterator[SparkSession]:
    """One local Spark for all tests, with Spark's own Kafka connector where a test compares with it; its Java process is gone afterwards."""
    from headrace.spark.session import local_session, stop_session

    is_compared = any(SPARKS_CONNECTOR in getattr(item, "fixturenames", ()) for item in request.session.items)
    config = {
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.pollingDelay": "100ms",  # not a hundred times a second for a query that has nothing to read
        **({"spark.jars": _connector()} if is_compared and is_available() else {}),
    }
    session = local_session("tests", config=config, log_path=spark_log)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Py4J leaves sockets of callbacks to the collector
        stop_session(session)
        gc.collect()


def _connector() -> str:
    """Not on the class path, which stays as it is in the archive of classes."""
    return ",".join(str(jar) for jar in spark_connector.jars())


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """One Headrace node beside the tests."""
    with Node() as running:
        yield running


@dataclass(slots=True)
class Topics:
    """Makes, fills and reads topics of one cluster, with our own client and no Spark."""

    servers: str
    client: BlockingClient

    def make(self, partitions: int = 1) -> str:
        """A new topic that keeps its records, whose times lie in 1970, for ever."""
        name = f"spark-test-{next(_NUMBERS)}"
        self._create(name, partitions)
        return name

    def _create(self, name: str, partitions: int) -> None:
        new = admin_topics.NewTopic(
            name=name, partitions=partitions, replication_factor=1, configs={"retention.ms": "-1"}
        )
        made = self.client.run(admin_topics.create_topics, [new])
        assert isinstance(made[name], Uuid), made

    def remake(self, topic: str, partitions: int = 1) -> None:
        """Delete the topic and make another of its name, once the node has forgotten the first."""
        self.delete(topic)
        wait_until(lambda: not self.client.topics([topic]))
        self._create(topic, partitions)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        gone = self.client.run(admin_topics.delete_topics, [name])
        assert not any(gone.values()), gone

    def fill(
        self, topic: str, values: Sequence[str | bytes], *, partition: int = 0, codec: int = 0, time_ms: int = 1000
    ) -> None:
        """Append one batch of values, keys null."""
        records = [
            NewRecord(key=None, value=value.encode() if isinstance(value, str) else value, timestamp=time_ms)
            for value in values
        ]
        self.client.produce_raw(topic, partition, build_batch(records, codec=codec))


@pytest.fixture
def topics(node: Node) -> Iterator[Topics]:
    """Topics of the Headrace node."""
    with BlockingClient(node.bootstrap_servers) as client:
        yield Topics(node.bootstrap_servers, client)


@pytest.fixture
def load(spark: SparkSession, topics: Topics) -> Callable[..., DataFrame]:
    """A batch read with the given options, `kafka.` ones as `kafka_...`."""

    def read(**options: Any) -> DataFrame:
        return with_options(spark.read, topics.servers, options).load()

    return read


def with_options(reader: Any, servers: str, options: dict[str, Any]) -> Any:
    """A reader or writer of format headrace at these servers."""
    named = {
        f"kafka.{key[6:].replace('_', '.')}" if key.startswith("kafka_") else key: value
        for key, value in options.items()
    }
    return reader.format("headrace").option("kafka.bootstrap.servers", servers).options(**named)


def values(rows: DataFrame) -> list[str]:
    """The values as text, sorted by partition and offset; not by Spark, which reads twice to sort."""
    found = rows.selectExpr("partition", "offset", "CAST(value AS STRING) AS value").collect()
    return [each["value"] for each in sorted(found)]


def run_stream(rows: DataFrame, sink: Callable[[Any], Any], checkpoint: Path) -> list[dict[str, Any]]:
    """Run a streaming query to the end of what is there; its progress reports that read something."""
    import json

    query = sink(rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True))
    try:
        query.awaitTermination()
    finally:
        query.stop()
    reports = [json.loads(each.json) for each in query.recentProgress]
    return [each for each in reports if each["numInputRows"]]
