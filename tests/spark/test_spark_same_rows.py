"""Does our source read what Spark's own Kafka connector reads, value for value, from an Apache Kafka?

Cases are drawn by `row_cases`: 60 in the quick volumes, 220 in those of the continuous check, `HEADRACE_ROWS_CASES` for more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.blocking import BlockingClient
from tests.peers.kafka import Kafka
from tests.spark import row_cases
from tests.spark.conftest import Topics
from tests.spark.row_cases import Edges, ReadCase
from tests.spark.row_topics import make_topics
from tests.support.volumes import volume

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]
CASES = row_cases.draw(volume("HEADRACE_ROWS_CASES", quick=60, ci=220))
STREAMS = list(row_cases.stream_options())
FORMATS = ("headrace", "kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A Kafka with the topics of the comparison."""

    servers: str
    edges: Edges


@pytest.fixture(scope="module")
def rows_of_kafka(shared_kafka: Kafka) -> Filled:
    """The topics are made once. Whoever asks for this has Spark's own connector in the session."""
    servers = f"127.0.0.1:{shared_kafka.port}"
    with BlockingClient(servers) as client:
        return Filled(servers=servers, edges=make_topics(servers, client))


def plain(row: Row) -> tuple[Any, ...]:
    """A row as values that compare by content."""
    return tuple(
        bytes(value) if isinstance(value, bytearray)
        else [(name, None if each is None else bytes(each)) for name, each in value] if isinstance(value, list)
        else value
        for value in row
    )  # fmt: skip


def read(spark: SparkSession, source: str, servers: str, options: Mapping[str, str]) -> tuple[Any, Any]:
    """The rows by topic, partition and offset, and the first and last of each task; None where the read is refused, with what was said."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import spark_partition_id

    reader = spark.read.format(source).option("kafka.bootstrap.servers", servers).options(**options)
    try:
        found = reader.load().select("*", spark_partition_id()).collect()
    except (PySparkException, Py4JJavaError) as error:
        return None, str(error)
    rows: list[tuple[Any, ...]] = []
    tasks: dict[int, tuple[Any, Any]] = {}
    for row in found:
        *values, task = plain(row)
        rows.append(tuple(values))
        where = tuple(values[2:5])
        tasks[task] = (tasks.get(task, (where,))[0], where)
    return sorted(rows, key=lambda row: row[2:5]), sorted(tasks.values())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_read_has_the_rows_of_sparks_connector(
    spark: SparkSession, rows_of_kafka: Filled, case: ReadCase
) -> None:
    """Every column of every row, and how rows are cut into tasks; what one refuses, so does the other."""
    options = case.options(rows_of_kafka.edges)
    ours, theirs = (read(spark, source, rows_of_kafka.servers, options) for source in FORMATS)
    assert ours[0] == theirs[0], (options, ours[1], theirs[1])
    if ours[0] is not None and case.is_cut_alike:
        assert ours[1] == theirs[1], options


@pytest.mark.parametrize(("name", "options"), STREAMS, ids=[name for name, _ in STREAMS])
def test_a_stream_has_the_batches_of_sparks_connector(
    spark: SparkSession, rows_of_kafka: Filled, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    """Trigger.AvailableNow: the same rows, in micro-batches that end at the same offsets."""
    ours, theirs = (run(spark, source, rows_of_kafka.servers, options, tmp_path / source) for source in FORMATS)
    assert ours == theirs


def test_a_checkpoint_of_sparks_connector_goes_on_here_and_back(
    spark: SparkSession, rows_of_kafka: Filled, topics: Topics, tmp_path: Path
) -> None:
    """A query whose format is exchanged keeps its checkpoint: each record is there once. On the way back our keys leave the last offsets."""
    topic, checkpoint, table = topics.make(), tmp_path / "checkpoint", str(tmp_path / "table")
    written: list[str] = []
    for turn, source in enumerate(("kafka", "headrace", "headrace", "kafka", "kafka")):
        if (turn, source) == (3, "kafka"):
            without_our_keys(checkpoint / "offsets")
        values = [f"{turn}-{each}" for each in range(5)]
        topics.fill(topic, values)
        reader = spark.readStream.format(source).option("kafka.bootstrap.servers", topics.servers)
        rows = (
            reader.options(subscribe=topic, startingOffsets="earliest").load().selectExpr("CAST(value AS string) AS v")
        )
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start(table).awaitTermination()
        written += values
        assert sorted(row["v"] for row in spark.read.parquet(table).collect()) == written, source


def without_our_keys(offsets: Path) -> None:
    """As docs/spark.md says it: the newest file without them, and without its checksum."""
    newest = max((each for each in offsets.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
    *before, last = newest.read_text().splitlines()
    kept = {name: value for name, value in json.loads(last).items() if not name.startswith("headrace:")}
    newest.write_text("\n".join([*before, json.dumps(kept)]))
    (offsets / f".{newest.name}.crc").unlink(missing_ok=True)


def run(
    spark: SparkSession, source: str, servers: str, options: Mapping[str, str], checkpoint: Path
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The rows, by topic, partition and offset, and where each batch with rows ended."""
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", servers).options(**options)
    table = f"stream_of_{source}"
    writer = reader.load().writeStream.format("memory").queryName(table)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    rows = sorted((plain(row) for row in spark.table(table).collect()), key=lambda row: row[2:5])
    spark.catalog.dropTempView(table)
    return rows, list(ends(query.recentProgress))


def ends(reports: list[Any]) -> Iterator[dict[str, Any]]:
    """The end of each batch with rows, without what our first one has besides."""
    for each in reports:
        told = json.loads(each.json)
        if told["numInputRows"]:
            end = told["sources"][0]["endOffset"]
            yield {topic: offsets for topic, offsets in end.items() if ":" not in topic}
