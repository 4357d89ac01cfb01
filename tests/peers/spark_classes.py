"""How does Spark's JVM start at half the CPU time? It maps an archive of the classes that queries load, made once as Kafka's is (`class_archive.py`).

A JVM of another build, or one with other jars, does without it and says nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.peers.kafka import CACHE, QUICK_JVM

PROGRAM: Final = """
import subprocess, sys
from contextlib import suppress
from pathlib import Path
from pyspark import SparkContext
from headrace.client.blocking import BlockingClient
from headrace.records.record import NewRecord, build_batch
from headrace.spark.declarative.session import Place, connect_session, project_config
from headrace.testing import Node

directory, options = Path(sys.argv[1]), sys.argv[2]
config = project_config(directory, {"spark.driver.extraJavaOptions": options})
with Node(in_process=True) as node, BlockingClient(node.bootstrap_servers) as client:
    client.produce_raw("any", 0, build_batch([NewRecord(key=None, value=b"1", timestamp=1)]))
    with suppress(subprocess.TimeoutExpired), connect_session(Place(master="local[2]", config=config, log_path=directory / "spark.log")) as spark:
        where = {"kafka.bootstrap.servers": node.bootstrap_servers, "subscribe": "any", "startingOffsets": "earliest"}
        rows = spark.readStream.format("headrace").options(**where).load().selectExpr("CAST(value AS STRING) AS value", "timestamp")
        stream = rows.withWatermark("timestamp", "1 second").groupBy("timestamp", "value").count().writeStream
        stream.trigger(availableNow=True).option("checkpointLocation", str(directory / "checkpoint")).toTable("counts").awaitTermination()
        spark.sql("CREATE TABLE names AS SELECT value, count(*) AS n FROM counts GROUP BY value").collect()
        spark.sql("SELECT * FROM names JOIN counts USING (value) ORDER BY 1").toPandas()
        written = spark.read.format("headrace").options(**where).load().select("value")
        written.write.format("headrace").option("kafka.bootstrap.servers", node.bootstrap_servers).option("topic", "any").mode("append").save()
        java = SparkContext._gateway.proc
java.wait(600)  # the archive is written at its end
"""
"""Reads, writes, streams and joins, in a session and through Connect."""


def archive() -> Path:
    """Of the PySpark that is installed here."""
    found = importlib.util.find_spec("pyspark")
    place = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    return CACHE / f"spark-{hashlib.sha256(str(place).encode()).hexdigest()[:12]}.jsa"


def java_options() -> str:
    """For a Java of Spark's that ends soon."""
    made = archive()
    options = [*QUICK_JVM, f"-XX:SharedArchiveFile={made}", "-Xlog:disable"] if made.exists() else QUICK_JVM
    return " ".join(options)


def make() -> None:
    """Let Spark answer some queries, and archive the classes that it has loaded at its end. Takes about half a minute."""
    unfinished = archive().with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="headrace-spark-classes-") as scratch:
        (Path(scratch) / ".headrace").mkdir()
        options = " ".join([*QUICK_JVM, f"-XX:ArchiveClassesAtExit={unfinished}", "-Xlog:disable"])
        command = [sys.executable, "-c", PROGRAM, scratch, options]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=900, cwd=scratch)
    unfinished.rename(archive())
