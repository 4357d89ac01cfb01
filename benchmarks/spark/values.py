"""How fast are JSON values columns through our source, beside `from_json` over Spark's own connector?

``python -m benchmarks.spark.values [--rounds 5] [--warm-up 5] [--rows 500000]``. The same rows of six fields, both ways in turn in one Spark session, warm; the aggregate
reads every column. CPU seconds are those of Spark's Java process and its Python workers. Aim: twice the rows a second.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka.admin import NewTopic

from benchmarks import peers
from benchmarks.spark.loads import PRODUCER_BATCH_BYTES
from benchmarks.spark.run import Sample, timed
from headrace.arrow.batch_settings import BatchSettings
from headrace.arrow.encode import RowColumns, encode_batches
from headrace.client.blocking import BlockingClient
from headrace.spark.session import local_session, stop_session
from tests.peers import spark_connector

PARTITIONS = 2
SCHEMA = "id bigint, name string, score double, ok boolean, city string, n int"
_TOTALS = (
    "count(*)",
    "sum(v.id)",
    "sum(length(v.name))",
    "sum(v.score)",
    "count_if(v.ok)",
    "count(v.city)",
    "sum(v.n)",
)
AIM = 2.0


def fill(bootstrap: str, topic: str, rows: int) -> None:
    """The rows, every tenth without a city."""
    settings = BatchSettings(max_batch_bytes=PRODUCER_BATCH_BYTES)
    with BlockingClient(bootstrap) as client:
        producer = client.producer()
        for partition in range(PARTITIONS):
            texts = [
                f'{{"id": {each}, "name": "name of {each}", "score": {each / 8}, "ok": {"true" if each % 2 else "false"}, '
                f'"city": {"null" if each % 10 == 0 else f"{chr(34)}city {each % 97}{chr(34)}"}, "n": {each % 1000}}}'
                for each in range(partition, rows, PARTITIONS)
            ]
            for batch in encode_batches(
                RowColumns(value=pa.array(texts, pa.string()).cast(pa.binary())),
                now_ms=int(time.time() * 1000),
                settings=settings,
            ):
                producer.send(topic, partition, batch)
            producer.flush()


def queries(spark: Any, bootstrap: str, topic: str) -> dict[str, Callable[[], object]]:
    """Both ways to the same totals, which must agree."""
    from pyspark.sql import functions

    where = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}

    def ours() -> Any:
        options = {**where, "valueFormat": "json", "valueSchema": SCHEMA, "columns": "value"}
        return spark.read.format("headrace").options(**options).load().selectExpr("value AS v")

    def theirs() -> Any:
        rows = spark.read.format("kafka").options(**where).load()
        return rows.select(functions.from_json(rows["value"].cast("string"), SCHEMA).alias("v"))

    found: dict[str, Any] = {}

    def run(name: str, frame: Callable[[], Any]) -> None:
        found[name] = tuple(frame().selectExpr(*_TOTALS).collect()[0])
        assert len(set(found.values())) == 1, found

    return {"headrace": lambda: run("headrace", ours), "from_json": lambda: run("from_json", theirs)}


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=5, help="rounds that do not count")
    parser.add_argument("--rows", type=int, default=500_000)
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir="/dev/shm"))
    system = peers.start_headrace(directory)
    samples: dict[str, list[Sample]] = {"headrace": [], "from_json": []}
    try:
        admin = system.admin
        admin.create_topics([NewTopic("bench-json", PARTITIONS, 1)])["bench-json"].result(30)
        fill(system.bootstrap, "bench-json", options.rows)
        jars = ",".join(str(jar) for jar in spark_connector.jars())
        spark = local_session(
            "bench-json", master="local[2]", config={"spark.jars": jars}, log_path=directory / "spark.log"
        )
        java_pid = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - the one way to the Java process
        works = queries(spark, system.bootstrap, "bench-json")
        try:
            for number in range(-options.warm_up, options.rounds):
                for name in sorted(works, reverse=bool(number % 2)):
                    sample = timed(works[name], java_pid, system)
                    if number >= 0:
                        samples[name].append(sample)
        finally:
            stop_session(spark)
    finally:
        system.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(report(samples, options.rows))


def report(samples: dict[str, list[Sample]], rows: int) -> str:
    """A line each, and the ratios."""
    lines = []
    speed = {name: statistics.median(rows / each.seconds for each in some) for name, some in samples.items()}
    cost = {name: statistics.median(each.cpu_s / rows * 1e6 for each in some) for name, some in samples.items()}
    for name in samples:
        lines.append(f"{name}: {speed[name]:,.0f} rows/s, {cost[name]:.2f} CPU s/M rows")
    ratio = speed["headrace"] / speed["from_json"]
    lines.append(
        f"ratio: {ratio:.2f} of the rows/s (aim >= {AIM}), {cost['headrace'] / cost['from_json']:.2f} of the CPU"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
