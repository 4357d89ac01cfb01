"""How does a streaming query go through topics, stop, and go on?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.blocking import BlockingClient
from headrace.testing import Node
from tests.spark.conftest import Topics, run_stream, values, with_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"
pytestmark = pytest.mark.spark
Load = Callable[..., "DataFrame"]


def stream(spark: SparkSession, topics: Topics, **options: Any) -> DataFrame:
    """A stream of topics from the earliest offset on, if not said otherwise."""
    return with_options(spark.readStream, topics.servers, {"startingOffsets": "earliest", **options}).load()


def to_topic(topics: Topics, topic: str) -> Callable[[Any], Any]:
    """A sink that writes to a topic."""
    return lambda writer: with_options(writer, topics.servers, {"topic": topic}).start()


@pytest.mark.each_pyspark
def test_a_stream_from_topic_to_topic_without_loss_or_repeats_over_restarts(
    spark: SparkSession, topics: Topics, load: Load, tmp_path: Path
) -> None:
    """B-W08: readStream and writeStream round trip; each restart goes on exactly where the checkpoint says."""
    source, target = topics.make(2), topics.make()
    for part in range(3):
        topics.fill(source, [f"{part}-0-{each}" for each in range(50)])
        topics.fill(source, [f"{part}-1-{each}" for each in range(50)], partition=1)
        rows = stream(spark, topics, subscribe=source).selectExpr("value")
        run_stream(rows, to_topic(topics, target), tmp_path)
    wanted = [f"{part}-{where}-{each}" for part in range(3) for where in range(2) for each in range(50)]
    assert sorted(values(load(subscribe=target))) == sorted(wanted)


def test_the_first_stream_of_the_guide_runs_and_goes_on(
    spark: SparkSession,
    topics: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The program of `docs/spark.md`, twice, with records before each run."""
    text = GUIDE.read_text().partition("## A first stream")[2].partition("\n## ")[0]
    topic = topics.make()
    program = text.partition("```python\n")[2].partition("```")[0]
    program = program.replace("127.0.0.1:9092", topics.servers).replace('"greetings"', f'"{topic}"')
    program = program.replace('"greetings/', f'"{tmp_path}/greetings/')  # Java's directory is where the session began
    monkeypatch.chdir(tmp_path)
    for value in ("first", "second"):
        topics.fill(topic, [value])
        exec(program, {})  # what the guide has the reader do
    shown = capsys.readouterr().out
    assert (shown.count("first"), shown.count("second")) == (2, 1)


@pytest.mark.each_pyspark
def test_admission_control_and_offsets_in_progress(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """maxOffsetsPerTrigger bounds each batch; Trigger.AvailableNow ends at what was there; offsets are JSON as in Spark's kafka source."""
    topic = topics.make(2)
    topics.fill(topic, [str(each) for each in range(60)])
    topics.fill(topic, [str(each) for each in range(40)], partition=1)
    rows = stream(spark, topics, subscribe=topic, maxOffsetsPerTrigger="50")
    progress = run_stream(rows, lambda writer: writer.format("noop").start(), tmp_path)
    assert [each["numInputRows"] for each in progress] == [50, 50]
    ends = [each["sources"][0]["endOffset"] for each in progress]
    ids = {"headrace:topics": {topic: str(topics.client.topics([topic])[topic].topic_id)}}
    assert ends[0] == {topic: {"0": 30, "1": 20}, "headrace:start": {topic: {"0": 0, "1": 0}}, **ids}
    assert ends[1] == {topic: {"0": 60, "1": 40}, **ids}


@pytest.mark.parametrize("most", [None, pytest.param("8", marks=pytest.mark.each_pyspark)])
def test_a_batch_waits_for_enough_records(
    spark: SparkSession, topics: Topics, tmp_path: Path, most: str | None
) -> None:
    """minOffsetsPerTrigger: the first batch takes what is there, as with Spark's source, and later ones wait; beside maxOffsetsPerTrigger both hold; AvailableNow reads the rest."""
    topic = topics.make()
    topics.fill(topic, ["first", "batch"])
    options = {"minOffsetsPerTrigger": "8"} | ({} if most is None else {"maxOffsetsPerTrigger": most})
    rows = stream(spark, topics, subscribe=topic, **options)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    query.processAllAvailable()
    topics.fill(topic, [str(each) for each in range(5)])
    query.processAllAvailable()
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [2]
    topics.fill(topic, [str(each) for each in range(5)])
    query.processAllAvailable()
    query.stop()
    counts = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    assert counts == [2, 10 if most is None else 8]
    progress = run_stream(rows, lambda writer: writer.format("noop").start(), tmp_path)
    assert [each["numInputRows"] for each in progress] == ([] if most is None else [2])


def test_a_stream_outlives_a_node_that_is_killed_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    """B-W08: a broker lost in mid-stream costs time and no record; the query and its producers go on by themselves."""
    with Node(directory=tmp_path / "node") as node, BlockingClient(node.bootstrap_servers) as client:
        own = Topics(node.bootstrap_servers, client)
        source, target = own.make(), own.make()
        rows = stream(spark, own, subscribe=source).selectExpr("value")
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = to_topic(own, target)(writer)
        try:
            for part in range(3):
                own.fill(source, [f"{part}-{each}" for each in range(100)])
                if part:
                    node.kill()
                    node.start()
                query.processAllAvailable()
        finally:
            query.stop()
        found = with_options(spark.read, own.servers, {"subscribe": target}).load()
        assert sorted(set(values(found))) == sorted(f"{part}-{each}" for part in range(3) for each in range(100))


@pytest.mark.each_pyspark
def test_a_first_batch_that_failed_is_read_again_from_where_it_began(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """With `latest` a restart in the first batch must not begin at a later end: the first batch's offset carries its start."""
    topic = topics.make()
    topics.fill(topic, ["before"])
    seen: list[str] = []

    def fail(rows: DataFrame, batch_id: int) -> None:
        raise ValueError(f"the sink fails in batch {batch_id}")

    rows = with_options(spark.readStream, topics.servers, {"subscribe": topic, "startingOffsets": "latest"}).load()
    with pytest.raises(Exception, match="the sink fails in batch 0"):
        run_stream(rows, lambda writer: writer.foreachBatch(fail).start(), tmp_path)
    topics.fill(topic, ["first", "second"])
    run_stream(rows, lambda writer: writer.foreachBatch(lambda found, _: seen.extend(values(found))).start(), tmp_path)
    assert seen == ["first", "second"]


def test_a_new_partition_is_read_from_its_beginning(
    spark: SparkSession, topics: Topics, load: Load, tmp_path: Path
) -> None:
    """Partitions added between two runs are part of the stream, from offset 0."""
    from headrace.client import admin_topics

    source, target = topics.make(), topics.make()
    topics.fill(source, ["a"])
    rows = stream(spark, topics, subscribe=source, maxOffsetsPerTrigger="5").selectExpr("value")
    run_stream(rows, to_topic(topics, target), tmp_path)
    done = topics.client.run(admin_topics.create_partitions, {source: 2})
    assert not any(done.values()), done
    topics.fill(source, ["b", "c"], partition=1)
    run_stream(rows, to_topic(topics, target), tmp_path)
    assert values(load(subscribe=target)) == ["a", "b", "c"]


def test_a_topic_made_again_under_its_name_is_another_topic(
    spark: SparkSession, topics: Topics, load: Load, tmp_path: Path
) -> None:
    """Even where the new one holds as many records: a loss that is named, or with failOnDataLoss=false its records from the beginning on; and so while the query runs."""
    source, target = topics.make(), topics.make()
    topics.fill(source, ["old", "older"])

    def start(available_now: bool, **options: str) -> Any:
        rows = stream(spark, topics, subscribe=source, **options).selectExpr("value")
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path))
        return to_topic(topics, target)(writer.trigger(availableNow=True) if available_now else writer)

    start(available_now=True).awaitTermination()
    topics.remake(source)
    topics.fill(source, ["new", "newer"])
    with pytest.raises(Exception, match=f"topic {source} was deleted and made again"):
        start(available_now=True).awaitTermination()
    query = start(available_now=False, failOnDataLoss="false")
    try:
        query.processAllAvailable()
        assert values(load(subscribe=target)) == ["old", "older", "new", "newer"]
        topics.remake(source)
        topics.fill(source, ["newest"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert values(load(subscribe=target)) == ["old", "older", "new", "newer", "newest"]


def test_records_that_aged_out_are_a_loss(spark: SparkSession, topics: Topics, load: Load, tmp_path: Path) -> None:
    """failOnDataLoss: a stream whose offsets are not there any more stops with the reason, or goes on without them."""
    source, target = topics.make(), topics.make()
    topics.fill(source, ["old", "older", "oldest"])
    checkpoint = tmp_path / "checkpoint"

    def run(**options: str) -> None:
        fast = {"fetchOffset.numRetries": "0", "subscribePattern": f"{source}|none", **options}
        run_stream(stream(spark, topics, **fast).selectExpr("value"), to_topic(topics, target), checkpoint)

    run()
    from headrace.client import offsets
    from headrace.core.ids import TopicPartition

    topics.fill(source, ["lost", "lost too"])
    topics.fill(source, ["kept"])
    topics.client.run(offsets.delete_records, {TopicPartition(source, 0): 5})
    with pytest.raises(Exception, match="the log holds 5 to 6"):
        run()
    run(failOnDataLoss="false")
    assert values(load(subscribe=target)) == ["old", "older", "oldest", "kept"]


def test_a_checkpoint_of_another_topic_is_refused(
    spark: SparkSession, topics: Topics, load: Load, tmp_path: Path
) -> None:
    """The remedy is named; with failOnDataLoss=false the new topic is read from its beginning, as any that was added."""
    before, after, target = topics.make(), topics.make(), topics.make()
    topics.fill(before, ["of the one"])
    topics.fill(after, ["of the other"])

    def run(source: str, **options: str) -> None:
        rows = stream(spark, topics, subscribe=source, **options).selectExpr("value")
        run_stream(rows, to_topic(topics, target), tmp_path)

    run(before)
    said = f"the checkpoint is that of {before}, and the query reads {after}: give it a checkpointLocation of its own"
    with pytest.raises(Exception, match=said):
        run(after)
    run(after, failOnDataLoss="false")
    assert values(load(subscribe=target)) == ["of the one", "of the other"]


def test_a_checkpoint_that_holds_something_else_is_refused(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """What it says and what belongs there; nothing is read."""
    topic = topics.make()
    topics.fill(topic, ["a"])
    rows = stream(spark, topics, subscribe=topic)
    run_stream(rows, lambda writer: writer.format("noop").start(), tmp_path)
    stored = tmp_path / "offsets" / "0"
    *head, _ = stored.read_text().splitlines()
    (stored.parent / ".0.crc").unlink()
    stored.write_text("\n".join([*head, f'{{"{topic}":5}}']))
    topics.fill(topic, ["b"])
    with pytest.raises(Exception, match=r"belong: restore it, or begin anew with another checkpointLocation"):
        run_stream(rows, lambda writer: writer.format("noop").start(), tmp_path)


@pytest.mark.each_pyspark
def test_complete_results_are_appended(spark: SparkSession, topics: Topics, load: Load, tmp_path: Path) -> None:
    """Output mode complete writes each result as new records, as Spark's kafka sink does; Spark itself refuses update for a source in Python."""
    source, target = topics.make(), topics.make()
    counts = (
        stream(spark, topics, subscribe=source)
        .groupBy("value")
        .count()
        .selectExpr("concat(CAST(value AS STRING), count) AS value")
    )
    for part in (["x", "y"], ["x"]):
        topics.fill(source, part)
        run_stream(counts, lambda writer: to_topic(topics, target)(writer.outputMode("complete")), tmp_path)
    assert sorted(values(load(subscribe=target))) == ["x1", "x2", "y1", "y1"]
