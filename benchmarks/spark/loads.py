"""What Spark is asked to do with topics: the cells of the benchmark, their data, their queries."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka.admin import NewTopic

from benchmarks import peers
from headrace.arrow.batch_settings import BatchSettings
from headrace.arrow.encode import RowColumns, encode_batches
from headrace.client.blocking import BlockingClient
from headrace.records.compression import CODEC_NAMES
from headrace.spark.option_names import READ_OPTIONS

PRODUCER_BATCH_BYTES: Final = 16_384
FORMATS: Final = ("headrace", "kafka")
WORDS: Final = 64
"""Values are made of so many different words, so that codecs have something to find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One load: `way` is batch, value (a batch read of which only the column value is used), stream or sink."""

    way: str
    value_bytes: int
    partitions: int
    codec: str

    def __str__(self) -> str:
        """As the table says it."""
        return f"{self.way} {self.value_bytes} B, {self.partitions} partitions, {self.codec}"

    @property
    def topic(self) -> str:
        """Where it reads from or writes to."""
        return f"bench-{'out' if self.way == 'sink' else 'in'}-{self.value_bytes}-{self.partitions}-{self.codec}"

    def rows(self, megabytes: int) -> int:
        """How many rows have so many megabytes of values together."""
        return megabytes * 1_000_000 // self.value_bytes // self.partitions * self.partitions

    def aims(self) -> dict[str, float]:
        """The ratio to Spark's connector that is to be reached: at least for the rate, at most for CPU time."""
        if self.way == "sink":
            return {"rows/s": 1.5}
        rate = 4.0 if self.value_bytes == 100 else 2.0
        return {"rows/s": rate, "CPU s/M rows": 0.35 if self.way == "value" else 0.45}


def cells(*, is_all: bool) -> list[Cell]:
    """The main cells, or all."""
    if is_all:
        return [
            Cell(way=way, value_bytes=size, partitions=partitions, codec=codec)
            for size in (100, 1000)
            for partitions in (2, 12)
            for codec in ("none", "lz4", "zstd")
            for way in ("batch", "value", "stream", "sink")
        ]
    chosen = [
        ("batch", 100, 2, "none"), ("batch", 100, 2, "lz4"), ("batch", 100, 2, "zstd"), ("batch", 100, 12, "none"),
        ("value", 100, 2, "none"), ("stream", 100, 2, "none"), ("batch", 1000, 2, "none"), ("batch", 1000, 2, "lz4"),
        ("sink", 100, 2, "none"), ("sink", 100, 2, "lz4"), ("sink", 1000, 2, "none"),
    ]  # fmt: skip
    return [Cell(way=way, value_bytes=size, partitions=parts, codec=codec) for way, size, parts, codec in chosen]


def make_topics(system: peers.System, wanted: list[Cell], megabytes: int) -> None:
    """A topic for each cell, full where it is read."""
    admin = system.admin
    by_name = {cell.topic: cell for cell in wanted}
    new = [NewTopic(name, cell.partitions, 1) for name, cell in by_name.items()]
    for future in admin.create_topics(new).values():
        future.result(30)
    for cell in by_name.values():
        if cell.way != "sink":
            _fill(system.bootstrap, cell, megabytes)


def empty(system: peers.System, cell: Cell) -> None:
    """The sink's topic anew, so that rounds do not fill the memory file system."""
    admin = system.admin
    for future in admin.delete_topics([cell.topic]).values():
        future.result(30)
    time.sleep(0.3)
    for future in admin.create_topics([NewTopic(cell.topic, cell.partitions, 1)]).values():
        future.result(30)
    time.sleep(0.3)


def _fill(bootstrap: str, cell: Cell, megabytes: int) -> None:
    """Values over the partitions, in batches of the size that producers make by default."""
    rng = np.random.default_rng(1)
    settings = BatchSettings(max_batch_bytes=PRODUCER_BATCH_BYTES, codec=CODEC_NAMES[cell.codec])
    words = rng.bytes(WORDS * 10)
    with BlockingClient(bootstrap) as client:
        producer = client.producer()
        for partition in range(cell.partitions):
            left = cell.rows(megabytes) // cell.partitions
            while left:
                count = min(left, 20_000_000 // cell.value_bytes)
                for batch in encode_batches(
                    RowColumns(value=_values(rng, words, count, cell.value_bytes)),
                    now_ms=int(time.time() * 1000),
                    settings=settings,
                ):
                    producer.send(cell.topic, partition, batch)
                producer.flush()
                left -= count


def _values(rng: np.random.Generator, words: bytes, count: int, size: int) -> pa.Array:
    """`count` values of `size` bytes, each a row of words of ten bytes."""
    chosen = rng.integers(0, WORDS, count * size // 10)
    data = np.frombuffer(words, dtype="S10").view("V10")[chosen].tobytes()
    bounds = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def work(spark: Any, bootstrap: str, cell: Cell, source: str, rows: int) -> Callable[[], object]:
    """The query of a cell for one of `FORMATS`."""
    if cell.way == "sink":
        return lambda: _write(spark, bootstrap, cell, source, rows)
    if cell.way == "stream":
        return lambda: _stream(spark, bootstrap, cell, source, rows)
    if cell.way == "value":
        return lambda: _sum(spark, bootstrap, cell, source, rows)
    return lambda: _batch(spark, bootstrap, cell, source)


def _batch(spark: Any, bootstrap: str, cell: Cell, source: str) -> None:
    """All columns of all rows, for nobody."""
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", cell.topic)
    reader.load().write.format("noop").mode("overwrite").save()


def _sum(spark: Any, bootstrap: str, cell: Cell, source: str, rows: int) -> None:
    """How many rows, and how many bytes of values, with what our source has for reading one column only."""
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", cell.topic)
    if source == "headrace" and "columns" in READ_OPTIONS:
        reader = reader.option("columns", "value")
    found = reader.load().selectExpr("count(*) AS n", "sum(length(value)) AS bytes").collect()[0]
    assert (found["n"], found["bytes"]) == (rows, rows * cell.value_bytes), found


def _stream(spark: Any, bootstrap: str, cell: Cell, source: str, rows: int) -> None:
    """Trigger.AvailableNow over everything, in one micro-batch."""
    checkpoint = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir="/dev/shm"))
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
    stream = reader.option("subscribe", cell.topic).option("startingOffsets", "earliest").load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    assert sum(each["numInputRows"] for each in query.recentProgress) == rows


def _write(spark: Any, bootstrap: str, cell: Cell, source: str, rows: int) -> None:
    """Rows of one length, made by Spark."""
    made = spark.range(0, rows, 1, 2).selectExpr(f"rpad(CAST(id AS STRING), {cell.value_bytes}, 'x') AS value")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": cell.topic,
        "kafka.compression.type": cell.codec,
    }
    made.write.format(source).options(**options).mode("append").save()
