"""Are rows that Spark wrote twice recognised, and does a write that fails say what to do?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client import admin_configs
from headrace.core.errors import OperatorError
from headrace.spark.origin import drop_replays
from tests.spark.conftest import Topics, run_stream, values, with_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def read(spark: SparkSession, topics: Topics, topic: str, *, is_stream: bool = False) -> DataFrame:
    """The topic from its beginning on, with headers."""
    options = {"subscribe": topic, "includeHeaders": "true", "startingOffsets": "earliest"}
    found: DataFrame = with_options(spark.readStream if is_stream else spark.read, topics.servers, options).load()
    return found


def origins(rows: DataFrame) -> list[str]:
    """The header `headrace.origin` of each row."""
    found = rows.selectExpr("CAST(filter(headers, each -> each.key = 'headrace.origin')[0].value AS STRING) AS origin")
    return [row["origin"] for row in found.collect()]


def limit(topics: Topics, topic: str, most: int) -> None:
    """The topic takes batches up to this size."""
    resource = admin_configs.Resource(admin_configs.ResourceType.TOPIC, topic)
    changes = {resource: admin_configs.alter({"max.message.bytes": str(most)})}
    done = topics.client.run(admin_configs.alter_configs, changes)
    assert not any(done.values()), done


@pytest.mark.each_pyspark
def test_a_batch_of_a_stream_that_ran_twice_counts_once(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """A query that died after its rows were written, before the batch was done, writes them again under the same origins."""
    source, target = topics.make(), topics.make()
    topics.fill(source, ["same", "same", "other"])
    rows = with_options(spark.readStream, topics.servers, {"subscribe": source, "startingOffsets": "earliest"}).load()
    marked = {"topic": target, "writeOrigin": "true"}

    def sink(writer: Any) -> Any:
        return with_options(writer, topics.servers, marked).start()

    run_stream(rows.selectExpr("value"), sink, tmp_path)
    for done in (tmp_path / "commits").glob("*0*"):
        done.unlink()
    run_stream(rows.selectExpr("value"), sink, tmp_path)
    everything = read(spark, topics, target)
    assert sorted(values(everything)) == sorted(["same", "same", "other"] * 2)
    assert len(set(origins(everything))) == 3
    assert sorted(values(drop_replays(everything))) == ["other", "same", "same"]

    seen: list[str] = []
    stream = drop_replays(read(spark, topics, target, is_stream=True), within="10 minutes")
    run_stream(
        stream, lambda writer: writer.foreachBatch(lambda found, _: seen.extend(values(found))).start(), tmp_path / "r"
    )
    assert sorted(seen) == ["other", "same", "same"]


def test_what_a_task_wrote_before_it_failed_counts_once(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """A batch of which the topic took the first rows only is run again whole, once the topic takes the last one too."""
    source, target = topics.make(), topics.make()
    large = "x" * 200
    topics.fill(source, ["same", "same", large])
    limit(topics, target, 190)
    rows = with_options(spark.readStream, topics.servers, {"subscribe": source, "startingOffsets": "earliest"}).load()
    marked = {"topic": target, "writeOrigin": "true", "kafka_batch_size": "1"}

    def sink(writer: Any) -> Any:
        return with_options(writer, topics.servers, marked).start()

    with pytest.raises(Exception, match=f"the write to {target}-0 failed with MESSAGE_TOO_LARGE"):
        run_stream(rows.selectExpr("value"), sink, tmp_path)
    assert values(read(spark, topics, target)) == ["same", "same"]
    limit(topics, target, 1 << 20)
    run_stream(rows.selectExpr("value"), sink, tmp_path)
    everything = read(spark, topics, target)
    assert values(everything) == ["same", "same"] * 2 + [large]
    assert sorted(values(drop_replays(everything))) == ["same", "same", large]


def test_rows_of_two_writes_and_rows_without_an_origin_are_kept(spark: SparkSession, topics: Topics) -> None:
    """Equal rows of different writes are different rows; the frame's own headers stay, in front."""
    target = topics.make(2)
    topics.fill(target, ["x", "x"])
    rows = spark.sql(
        "SELECT 'x' AS value, CASE WHEN id > 0 THEN array(named_struct('key', concat('own', id), 'value', CAST('1' AS BINARY))) END AS headers "
        "FROM range(3)"
    )
    for _ in range(2):
        with_options(rows.write, topics.servers, {"topic": target, "writeOrigin": "true"}).mode("append").save()
    everything = read(spark, topics, target)
    assert drop_replays(everything).count() == 8
    keys = [[each["key"] for each in row["headers"] or []] for row in everything.select("headers").collect()]
    assert sorted(keys) == sorted(
        [[], [], *[["headrace.origin"], ["own1", "headrace.origin"], ["own2", "headrace.origin"]] * 2]
    )
    with pytest.raises(OperatorError, match="read with includeHeaders=true"):
        drop_replays(everything.select("value"))


def test_a_refused_write_names_partition_and_remedy(spark: SparkSession, topics: Topics) -> None:
    """What the broker refuses is one line: where, what, and what to do; a header without a key is found before the write."""
    topic = topics.make()
    limit(topics, topic, 100)
    nameless = (
        "SELECT 'x' AS value, array(named_struct('key', CAST(NULL AS STRING), 'value', CAST('1' AS BINARY))) AS headers"
    )
    for query, message in (
        (
            "SELECT repeat('x', 200) AS value",
            f"the write to {topic}-0 failed with MESSAGE_TOO_LARGE.*; raise max.message.bytes of the topic",
        ),
        (nameless, "a header has no key: every header needs one"),
    ):
        with pytest.raises(Exception, match=message):
            with_options(spark.sql(query).write, topics.servers, {"topic": topic}).mode("append").save()
