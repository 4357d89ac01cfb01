"""Micro-batches as records of a topic, at least once: a batch that runs again appends its rows again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.spark.pipeline.spec import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_topic(sink: TopicSink, rows: DataFrame, batch_id: int) -> None:
    """Append the rows of batch `batch_id`; the batch's number does not travel with them."""
    del batch_id
    key = f"CAST({sink.key} AS STRING) AS key" if sink.key else "CAST(NULL AS STRING) AS key"
    value = f"CAST({sink.value} AS STRING) AS value" if sink.value else "to_json(struct(*)) AS value"
    rows.selectExpr(key, value).write.format("headrace").options(**sink.options).mode("append").save()
