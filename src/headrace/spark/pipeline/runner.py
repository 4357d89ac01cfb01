"""A pipeline that runs on Spark, and goes on where it stopped.

Each query has its checkpoint under the pipeline's directory; starting the pipeline again with the same directory goes on from there. A
query writes each micro-batch to all its sinks before Spark notes the batch as done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark.pipeline.plan import Plan, Query
from headrace.spark.pipeline.sinks.parquet import write_parquet
from headrace.spark.pipeline.sinks.topic import write_topic
from headrace.spark.pipeline.spec import ParquetSink, Step, TableSource, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@dataclass(slots=True, kw_only=True)
class RunningPipeline:
    """The queries of a started pipeline, by name."""

    queries: dict[str, StreamingQuery] = field(default_factory=dict)

    def raise_failure(self) -> None:
        """Raise the error of a query that failed, if one did."""
        for query in self.queries.values():
            error = query.exception()
            if error is not None:
                raise error

    def is_running(self) -> bool:
        """Whether any query is still at work."""
        return any(query.isActive for query in self.queries.values())

    def wait(self) -> None:
        """Until every query has ended by itself (`available_now`); raises the first failure."""
        for query in self.queries.values():
            query.awaitTermination()

    def drain(self) -> None:
        """Work off all that is in the topics now."""
        for query in self.queries.values():
            query.processAllAvailable()

    def stop(self) -> None:
        """Stop all queries; a batch under way is done again at the next start."""
        for query in self.queries.values():
            query.stop()

    def progress(self, name: str) -> list[dict[str, Any]]:
        """Spark's progress reports of one query, oldest first, as many as the session keeps."""
        return [json.loads(each.json) for each in self.queries[name].recentProgress]


class PipelineRunner:
    """Builds the views of a plan in a session, once, and starts its queries."""

    def __init__(self, spark: SparkSession, plan: Plan, *, checkpoints: Path) -> None:
        self._spark = spark
        self._plan = plan
        self._checkpoints = checkpoints
        self._views: dict[str, DataFrame] = {}

    def start(self, *, available_now: bool = False, interval: str = "0 seconds") -> RunningPipeline:
        """Start all queries: to the end of what is there (`available_now`), or on and on, a batch at most every `interval`."""
        self._make_views()
        running = RunningPipeline()
        for query in self._plan.queries:
            writer = (
                self._views[query.source]
                .writeStream.queryName(query.name)
                .outputMode("append")
                .option("checkpointLocation", str(self._checkpoints / query.name))
                .foreachBatch(_batch_writer(query))
            )
            trigger = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=interval)
            running.queries[query.name] = trigger.start()
        return running

    def _make_views(self) -> None:
        spec = self._plan.spec
        for table in spec.tables:
            self._add(table.name, self._table(table))
        for topic in spec.topics:
            self._add(topic.name, self._topic(topic))
        for step in spec.steps:
            self._add(step.name, self._step(step))

    def _add(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(name)
        self._views[name] = rows

    def _table(self, table: TableSource) -> DataFrame:
        return self._spark.read.format(table.format).options(**table.options).load(table.path)

    def _topic(self, topic: TopicSource) -> DataFrame:
        rows = self._spark.readStream.format("headrace").options(**topic.options).load()
        if topic.schema is None:
            return rows
        from pyspark.sql import functions as F  # noqa: N812

        parsed = F.from_json(F.col("value").cast("string"), topic.schema)
        return rows.select("topic", "partition", "offset", parsed.alias("fields")).select(
            "topic", "partition", "offset", "fields.*"
        )

    def _step(self, step: Step) -> DataFrame:
        rows = self._spark.sql(step.sql)
        if step.watermark is None:
            return rows
        return rows.withWatermark(step.watermark.column, step.watermark.delay)


def _batch_writer(query: Query) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch_id: int) -> None:
        """All sinks of one micro-batch; rows are computed once."""
        rows.persist()
        try:
            if rows.isEmpty():
                return
            for sink in query.sinks:
                if isinstance(sink, ParquetSink):
                    write_parquet(sink, rows, batch_id)
                else:
                    write_topic(sink, rows, batch_id)
        finally:
            rows.unpersist()

    return write
