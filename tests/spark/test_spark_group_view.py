"""Do tools for consumer groups see how far a streaming query is?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from headrace.client import offsets
from headrace.core.ids import TopicPartition
from headrace.spark.query_watch import watch_queries
from tests.peers import kafka
from tests.spark.conftest import Topics, run_stream, with_options
from tests.support.metadata_load import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def stream(spark: SparkSession, topics: Topics, topic: str, group: str) -> DataFrame:
    """The topic as a stream whose progress is shown as the group's, five records a batch."""
    wanted = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "5", "groupId": group}
    rows: DataFrame = with_options(spark.readStream, topics.servers, wanted).load()
    return rows


@pytest.mark.java
def test_kafkas_tool_shows_progress_and_lag_of_a_query(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """The last batch's end is committed before the query ends; records that come later are lag, until the query goes on from its checkpoint."""
    topic = topics.make(2)
    group = f"query-of-{topic}"
    for partition, count in ((0, 7), (1, 4)):
        topics.fill(topic, [str(each) for each in range(count)], partition=partition)
    run_stream(stream(spark, topics, topic, group), lambda writer: writer.format("noop").start(), tmp_path)
    topics.fill(topic, ["late", "later"], partition=1)
    told = kafka.run_tool("kafka-consumer-groups", "--bootstrap-server", topics.servers, "--describe", "--group", group)
    lines = [line.split() for line in told.stdout.splitlines() if line.startswith(group)]
    assert sorted(line[1:6] for line in lines) == [[topic, "0", "7", "7", "0"], [topic, "1", "4", "6", "2"]]
    run_stream(stream(spark, topics, topic, group), lambda writer: writer.format("noop").start(), tmp_path)
    assert topics.client.run(offsets.fetch_committed, group) == {
        TopicPartition(topic, 0): offsets.CommittedOffset(offset=7),
        TopicPartition(topic, 1): offsets.CommittedOffset(offset=6),
    }


@pytest.mark.each_pyspark
def test_a_listener_knows_the_lag_of_a_query_and_commits_for_the_group_of_its_name(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """`watch_queries`: after the last batch nothing is behind, and the group `spark-NAME` has its end; nothing was said to the source."""
    topic = topics.make(2)
    topics.fill(topic, [str(each) for each in range(12)])
    watch = watch_queries(spark, groups={"bootstrap.servers": topics.servers})
    try:
        wanted = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}
        rows = with_options(spark.readStream, topics.servers, wanted).load()
        name = f"query_of_{topic.replace('-', '_')}"
        run_stream(rows, lambda writer: writer.queryName(name).format("noop").start(), tmp_path)
        where = TopicPartition(topic, 0)

        def committed() -> int:
            found = topics.client.run(offsets.fetch_committed, f"spark-{name}").get(where)
            return found.offset if isinstance(found, offsets.CommittedOffset) else -1

        wait_until(lambda: committed() == 12)
        lag = watch.lag(name)
    finally:
        spark.streams.removeListener(watch)
    assert lag is not None
    assert (lag.offsets, lag.most, lag.seconds) == ({where: 0, TopicPartition(topic, 1): 0}, 0, 0.0)


def test_a_group_that_refuses_does_not_stop_the_query(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """A group with members takes no commits of others: the query reads on to its end."""
    topic = topics.make()
    group = f"members-of-{topic}"
    topics.fill(topic, [str(each) for each in range(12)])
    member = Consumer({"bootstrap.servers": topics.servers, "group.id": group, "enable.auto.commit": False})
    try:
        member.subscribe([topic])
        while not member.assignment():
            member.poll(0.1)
        progress = run_stream(
            stream(spark, topics, topic, group), lambda writer: writer.format("noop").start(), tmp_path
        )
    finally:
        member.close()
    assert [each["numInputRows"] for each in progress] == [5, 5, 2]
    assert topics.client.run(offsets.fetch_committed, group) == {}
