"""What does Spark write, and where does it go?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from kafka.partitioner.default import murmur2

from tests.spark.conftest import Topics, with_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def write(rows: DataFrame, topics: Topics, **options: Any) -> None:
    """Append the rows."""
    with_options(rows.write, topics.servers, options).mode("append").save()


def read(spark: SparkSession, topics: Topics, topic: str) -> list[Any]:
    """All rows of the topic, with headers."""
    reader = with_options(spark.read, topics.servers, {"subscribe": topic, "includeHeaders": "true"})
    return sorted(reader.load().collect(), key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.parametrize(
    "codec", ["none", "gzip", "snappy", "lz4", pytest.param("zstd", marks=pytest.mark.each_pyspark)]
)
def test_rows_written_are_the_rows_read(spark: SparkSession, topics: Topics, codec: str) -> None:
    """Text and bytes, nulls, headers; every codec; other columns are ignored."""
    topic = topics.make()
    rows = spark.sql(
        "SELECT CASE WHEN id % 3 = 0 THEN NULL ELSE concat('k', id) END AS key, "
        "CASE WHEN id % 4 = 0 THEN NULL ELSE encode(concat('v', id), 'UTF-8') END AS value, "
        "CASE WHEN id % 2 = 0 THEN NULL ELSE array(named_struct('key', 'h', 'value', CAST(NULL AS BINARY))) END AS headers, "
        "id AS ignored FROM range(500)"
    ).coalesce(1)
    write(rows, topics, topic=topic, kafka_compression_type=codec)
    found = [
        (row["key"] and bytes(row["key"]), row["value"] and bytes(row["value"]), row["headers"] and len(row["headers"]))
        for row in read(spark, topics, topic)
    ]
    assert found == [
        (None if n % 3 == 0 else b"k%d" % n, None if n % 4 == 0 else b"v%d" % n, None if n % 2 == 0 else 1)
        for n in range(500)
    ]


def test_keys_go_to_the_partitions_of_kafkas_own_producer(spark: SparkSession, topics: Topics) -> None:
    """Rows with a key by its hash, rows that name a partition to that one, the others anywhere."""
    topic = topics.make(3)
    rows = spark.sql(
        "SELECT concat('k', id % 5) AS key, CAST(id AS STRING) AS value, CAST(CASE WHEN id >= 90 THEN 2 END AS INT) AS partition FROM range(100)"
    )
    write(rows, topics, topic=topic)
    found = read(spark, topics, topic)
    assert sorted(int(row["value"]) for row in found) == list(range(100))
    for row in found:
        by_hash = (murmur2(bytes(row["key"])) & 0x7FFF_FFFF) % 3
        assert row["partition"] == (2 if int(row["value"]) >= 90 else by_hash)


def test_the_topic_comes_from_the_column_or_from_the_option(spark: SparkSession, topics: Topics) -> None:
    """A column sends rows to many topics; the option goes before it."""
    first, second = topics.make(), topics.make()
    rows = spark.createDataFrame([(first, "1"), (second, "2"), (first, "3")], "topic STRING, value STRING").coalesce(1)
    write(rows, topics)
    assert [bytes(row["value"]) for row in read(spark, topics, first)] == [b"1", b"3"]
    assert [bytes(row["value"]) for row in read(spark, topics, second)] == [b"2"]
    write(rows, topics, topic=second)
    assert len(read(spark, topics, second)) == 4


@pytest.mark.each_pyspark
def test_what_cannot_be_written_is_refused(spark: SparkSession, topics: Topics) -> None:
    """Null topics, partitions that are not there, columns of a wrong type, unknown options, and overwriting."""
    topic = topics.make()
    refusals: list[tuple[DataFrame, dict[str, str], str]] = [
        (spark.sql("SELECT CAST(NULL AS STRING) AS topic, 'x' AS value"), {}, "a row has no topic"),
        (spark.sql("SELECT 'x' AS value, 5 AS partition"), {"topic": topic}, "has 0 to 0"),
        (spark.sql("SELECT 1 AS value"), {"topic": topic}, "column value is int; it must be string or binary"),
        (spark.sql("SELECT 'x' AS value"), {"topik": topic}, "did you mean topic"),
    ]
    for rows, options, message in refusals:
        with pytest.raises(Exception, match=message):
            write(rows, topics, **options)
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        with_options(refusals[3][0].write, topics.servers, {"topic": topic}).mode("overwrite").save()
    assert read(spark, topics, topic) == []


def test_a_task_stops_at_the_first_batch_that_is_refused(topics: Topics) -> None:
    """What comes behind it is not asked of Spark any more; the query fails anyway."""
    import pyarrow as pa

    from headrace.core.errors import OperatorError
    from headrace.spark.row_writer import write_rows
    from headrace.spark.write_options import parse_write_options

    taken = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for size in (1_200_000, *(400_000 for _ in range(100))):
            taken += 1
            yield pa.RecordBatch.from_pydict({"value": [b"x" * size]})

    options = parse_write_options({"kafka.bootstrap.servers": topics.servers, "topic": topics.make()})
    with pytest.raises(OperatorError, match="MESSAGE_TOO_LARGE"):
        write_rows(options, rows(), task=0)
    assert taken < 50
