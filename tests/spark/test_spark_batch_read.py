"""What does a batch query read?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.records.record import NewRecord, build_batch
from tests.spark.conftest import JAVA_OPTIONS, Topics, values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Load = Callable[..., "DataFrame"]

KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
)


@pytest.mark.each_pyspark
def test_the_source_is_found_without_registration_with_sparks_kafka_schema(spark: SparkSession, topics: Topics) -> None:
    """Schema, order and nullability are those of Spark's `kafka` source; `includeHeaders` adds its column."""
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", topics.servers).option("subscribe", "x")
    plain, headed = reader.load().schema, reader.option("INCLUDEHEADERS", "true").load().schema
    assert plain.simpleString() == f"{KAFKA_SCHEMA}>"
    assert headed.simpleString() == f"{KAFKA_SCHEMA},headers:array<struct<key:string,value:binary>>>"
    assert all(each.nullable for each in headed)


@pytest.mark.each_pyspark
def test_every_field_of_a_record_is_read(load: Load, topics: Topics) -> None:
    """Null and empty keys and values, headers (null without any), time, offset and partition."""
    topic = topics.make(2)
    records = [
        NewRecord(key=None, value=None, timestamp=1_700_000_000_123),
        NewRecord(key=b"", value=b"", timestamp=1_700_000_000_124, headers=(("h", None), ("h", b"\x00"))),
    ]
    topics.client.produce_raw(topic, 1, build_batch(records))
    first, second = load(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    moment = datetime.fromtimestamp(1_700_000_000, tz=UTC).replace(tzinfo=None, microsecond=123_000)
    assert first.asDict() == {
        "key": None, "value": None, "topic": topic, "partition": 1, "offset": 0, "timestamp": moment, "timestampType": 0, "headers": None,
    }  # fmt: skip
    assert (bytes(second["key"]), bytes(second["value"])) == (b"", b"")
    assert [(each["key"], each["value"]) for each in second["headers"]] == [("h", None), ("h", bytearray(b"\x00"))]


def test_only_the_columns_asked_for_are_read(load: Load, topics: Topics) -> None:
    """`columns`: they are the schema, in their order; a value that is decoded keeps its rescued column, and its place in an error."""
    topic = topics.make()
    topics.fill(topic, ['{"id":1}', "spoilt"])
    rows = load(subscribe=topic, columns="offset,value")
    assert rows.schema.simpleString() == "struct<offset:bigint,value:binary>"
    assert [(each.offset, bytes(each.value)) for each in rows.collect()] == [(0, b'{"id":1}'), (1, b"spoilt")]
    decoded = {"subscribe": topic, "columns": "value", "valueFormat": "json", "valueSchema": "id int"}
    found = load(**decoded, rescuedColumn="rest").select("value.id", "rest").collect()
    assert [tuple(each) for each in found] == [(1, None), (None, bytearray(b"spoilt"))]
    with pytest.raises(Exception, match=f"{topic}-0 offset 1: the value is no json"):
        load(**decoded).collect()


@pytest.mark.each_pyspark
def test_filters_leave_out_what_cannot_hold_a_row(spark: SparkSession, load: Load, topics: Topics) -> None:
    """With Spark's setting for Python sources, partitions and ranges are pruned; without it the same query reads all, and gives the same rows."""
    topic = topics.make(3)
    for partition in range(3):
        for part in range(3):
            topics.fill(topic, [f"{partition}-{part}"], partition=partition, time_ms=1000 * (part + 1) + partition)
    queries = {
        f"topic = '{topic}' AND partition IN (0, 2)": (2, ["0-0", "0-1", "0-2", "2-0", "2-1", "2-2"]),
        "partition <> 1 AND offset = 1": (2, ["0-1", "2-1"]),
        "timestamp > timestamp_millis(3000)": (2, ["1-2", "2-2"]),
        "timestamp >= timestamp_millis(2001) AND timestamp < timestamp_millis(2002)": (3, ["1-1"]),
        "offset >= 2 OR partition = 0": (3, ["0-0", "0-1", "0-2", "1-2", "2-2"]),
        "offset > 5": (1, []),
        "topic LIKE 'another%'": (1, []),
    }
    setting = "spark.sql.python.filterPushdown.enabled"
    for is_pushed in ("true", "false"):
        spark.conf.set(setting, is_pushed)
        try:
            found = {each: load(subscribe=topic).where(each) for each in queries}
            tasks = {each: rows.rdd.getNumPartitions() for each, rows in found.items()}
            assert {each: values(rows) for each, rows in found.items()} == {
                each: seen for each, (_, seen) in queries.items()
            }
        finally:
            spark.conf.unset(setting)
        assert tasks == {each: count if is_pushed == "true" else 3 for each, (count, _) in queries.items()}


def test_every_codec_is_read(load: Load, topics: Topics) -> None:
    """gzip, snappy, lz4 and zstd beside batches without compression."""
    topic = topics.make()
    for codec in range(5):
        topics.fill(topic, [f"{codec}-{each}" for each in range(200)], codec=codec)
    assert values(load(subscribe=topic)) == [f"{codec}-{each}" for codec in range(5) for each in range(200)]


def test_ranges_by_offsets(load: Load, topics: Topics) -> None:
    """startingOffsets and endingOffsets cut exactly, -2 and -1 stand for the edges; assign reads the named partitions only."""
    topic = topics.make(2)
    topics.fill(topic, [f"a{each}" for each in range(10)])
    topics.fill(topic, [f"b{each}" for each in range(10)], partition=1)
    offsets = {
        "startingOffsets": f'{{"{topic}":{{"0":3,"1":-2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":5,"1":2}}}}',
    }
    assert values(load(subscribe=topic, **offsets)) == ["a3", "a4", "b0", "b1"]
    assert values(load(assign=f'{{"{topic}":[1]}}', startingOffsets=f'{{"{topic}":{{"1":8}}}}')) == ["b8", "b9"]


def test_ranges_by_time(load: Load, topics: Topics) -> None:
    """startingTimestamp and endingTimestamp find the first record of that time or later; too late a start is an error or the end."""
    topic = topics.make()
    for time_ms in (1000, 2000, 3000):
        topics.fill(topic, [str(time_ms)], time_ms=time_ms)
    assert values(load(subscribe=topic, startingTimestamp="1001", endingTimestamp="2001")) == ["2000"]
    by_partition = f'{{"{topic}":{{"0":3000}}}}'
    assert values(load(subscribe=topic, startingOffsetsByTimestamp=by_partition)) == ["3000"]
    late = {"startingTimestamp": "9000", "startingOffsetsByTimestampStrategy": "latest"}
    assert values(load(subscribe=topic, **late)) == []
    with pytest.raises(Exception, match="has no record of 9000 ms or later"):
        load(subscribe=topic, startingTimestamp="9000").collect()


def test_topics_by_pattern(load: Load, topics: Topics) -> None:
    """subscribePattern matches whole names."""
    first, second = topics.make(), topics.make()
    topics.fill(first, ["1"])
    topics.fill(second, ["2"])
    assert sorted(values(load(subscribePattern=f"{first}|{second}"))) == ["1", "2"]
    assert values(load(subscribePattern=first[1:])) == []


def test_ranges_are_split_into_tasks(load: Load, topics: Topics) -> None:
    """minPartitions and maxRecordsPerPartition make more tasks of one partition, each row once."""
    topic = topics.make()
    topics.fill(topic, [str(each) for each in range(100)])
    for options in ({"minPartitions": "4"}, {"maxRecordsPerPartition": "25"}):
        rows = load(subscribe=topic, **options)
        assert rows.rdd.getNumPartitions() == 4
        assert values(rows) == [str(each) for each in range(100)]


@pytest.mark.each_pyspark
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic no-such-topic in the cluster"),
        (
            {"subscribe": "x", "startingOffset": "earliest"},
            "unknown option startingoffset; did you mean startingOffsets",
        ),
        ({"subscribe": "x", "kafka_bootstrap_servers": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(load: Load, options: dict[str, Any], message: str) -> None:
    """An error that a user can act on: no such topic, an option's nearest name, a cluster that is not there."""
    with pytest.raises(Exception, match=message):
        load(**options).collect()


def test_records_that_are_gone_are_an_error_or_left_out(load: Load, topics: Topics) -> None:
    """failOnDataLoss: offsets that were deleted."""
    from headrace.client import offsets
    from headrace.core.ids import TopicPartition

    topic = topics.make()
    topics.fill(topic, ["0", "1"])
    topics.fill(topic, ["2", "3"])
    topics.client.run(offsets.delete_records, {TopicPartition(topic, 0): 2})
    from_zero = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":0}}}}'}
    with pytest.raises(Exception, match=r"of the offsets 0 to 4 .* the log holds 2 to 4"):
        load(**from_zero).collect()
    assert values(load(**from_zero, failOnDataLoss="false")) == ["2", "3"]


@pytest.mark.each_pyspark
def test_sql_tables_over_topics(spark: SparkSession, topics: Topics) -> None:
    """A view; and CREATE TABLE ... USING headrace, INSERT and SELECT, each with the options that Spark does not hand over from the table."""
    from pyspark.errors import AnalysisException

    topic = topics.make()
    options = f"`kafka.bootstrap.servers` '{topics.servers}', subscribe '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW in_sql USING headrace OPTIONS ({options})")
    topics.fill(topic, ["x", "y"])
    assert [row["n"] for row in spark.sql("SELECT count(*) AS n FROM in_sql").collect()] == [2]
    spark.catalog.dropTempView("in_sql")
    spark.sql(f"CREATE TABLE events USING headrace OPTIONS ({options})")
    try:
        servers = f"'kafka.bootstrap.servers' = '{topics.servers}'"
        rows = "SELECT encode('k', 'UTF-8'), encode(concat('v', id), 'UTF-8') FROM range(3)"
        spark.sql(f"INSERT INTO events WITH ({servers}, topic = '{topic}') (key, value) {rows}")
        shown = "CAST(key AS STRING) AS key, CAST(value AS STRING) AS value"
        found = spark.sql(f"SELECT {shown} FROM events WITH ({servers}, subscribe = '{topic}') ORDER BY value")
        written = [("k", f"v{each}") for each in range(3)]
        assert [tuple(row) for row in found.collect()] == [*written, (None, "x"), (None, "y")]
        with pytest.raises(AnalysisException, match=r"FROM t WITH \('kafka.bootstrap.servers'"):
            spark.sql("SELECT * FROM events").collect()
    finally:
        spark.sql("DROP TABLE events")


@pytest.mark.each_pyspark
def test_a_limited_read_leaves_no_traceback(load: Load, topics: Topics, spark_log: Path) -> None:
    """Spark hangs up on its worker when it has enough rows; nothing went wrong, and the log says nothing.

    The workers that plan a read run PySpark's own daemon, whatever is configured. One of them, too, may find that Spark has hung up, the more often the slower
    the machine is: less than half of these reads are let pass. Without our daemon nearly every read leaves a traceback.
    """
    topic = topics.make()
    for _ in range(6):
        topics.fill(topic, ["x" * 100] * 8_000)
    before = len(spark_log.read_text())
    reads = 12
    for _ in range(reads):
        assert len(load(subscribe=topic).limit(3).collect()) == 3
    assert load(subscribe=topic).count() == 48_000
    told = spark_log.read_text()[before:]
    assert told.count("Traceback (most recent call last)") < reads / 2, told
    assert "worker_daemon" not in told


def test_java_trusts_arrows_buffers_and_has_the_callers_options(spark: SparkSession) -> None:
    """Both: those of `local_session` and those of its `config`."""
    read = spark._jvm.System.getProperty
    assert (read("arrow.enable_unsafe_memory_access"), read("arrow.enable_null_check_for_get")) == ("true", "false")
    assert any(each.startswith("-XX") for each in JAVA_OPTIONS.split())
    arguments = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert set(JAVA_OPTIONS.split()) <= set(arguments)


@pytest.mark.each_pyspark
def test_workers_read_the_compiled_pyspark(spark: SparkSession) -> None:
    """Not that of Spark's zip, which Python would compile anew for each kind of worker."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        import pyspark

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    import pyspark

    found = spark.range(1).mapInArrow(told, "file STRING").collect()
    assert {row["file"] for row in found} == {pyspark.__file__}
