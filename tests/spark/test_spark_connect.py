"""Do source and sink work through Spark Connect, replays and progress included?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client import offsets
from headrace.core.ids import TopicPartition
from tests.spark.conftest import JAVA_OPTIONS, Topics

pytestmark = [pytest.mark.spark, pytest.mark.each_pyspark]

_CLIENT = """
import sys
import time
from pathlib import Path
from headrace.spark.session import prepare_environment
prepare_environment()
from pyspark.sql import SparkSession
from headrace.spark.origin import drop_replays
from headrace.spark.query_watch import watch_queries

servers, source, target, checkpoint, java_options = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.driver.extraJavaOptions", java_options).config(
    "spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false").getOrCreate()
where = {"kafka.bootstrap.servers": servers}
watch = watch_queries(spark)
try:
    for _ in range(2):
        rows = spark.readStream.format("headrace").options(**where, subscribe=source, startingOffsets="earliest", groupId=source).load()
        query = rows.selectExpr("value").writeStream.queryName("copies").format("headrace").options(
            **where, topic=target, writeOrigin="true", checkpointLocation=checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        for done in Path(checkpoint, "commits").glob("*0*"):
            done.unlink()
    written = spark.read.format("headrace").options(**where, subscribe=target, includeHeaders="true").load()
    for _ in range(600):
        if watch.lag("copies"):
            break
        time.sleep(0.1)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    print(type(spark).__module__, written.count(), drop_replays(written).count(), written.where("offset >= 4").count(), watch.lag("copies").total)
finally:
    spark.streams.removeListener(watch)  # or the process may never end
    spark.stop()
"""


def test_a_stream_through_connect_marks_replays_and_shows_progress(topics: Topics, tmp_path: Path) -> None:
    """Tasks of a Connect server are told query and batch too; a process of its own, as one process has one kind of session."""
    source, target = topics.make(), topics.make()
    topics.fill(source, ["same", "same", "other"])
    arguments = [topics.servers, source, target, str(tmp_path / "checkpoint"), JAVA_OPTIONS]
    environment = {
        **os.environ,
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_TESTING": "1",
    }  # any free port for its server
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["pyspark.sql.connect.session", "6", "3", "2", "0"], done.stderr[-3000:]
    assert topics.client.run(offsets.fetch_committed, source) == {
        TopicPartition(source, 0): offsets.CommittedOffset(offset=3)
    }
