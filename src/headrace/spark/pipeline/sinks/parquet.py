"""Micro-batches as Parquet files.

In a directory of its own, `batch_id=N`, which is replaced as a whole: a batch that runs again after a crash leaves its rows once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.spark.pipeline.spec import ParquetSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def batch_directory(path: str, batch_id: int) -> str:
    """Where the rows of a batch go; a reader of `path` sees `batch_id` as a column."""
    return f"{path}/batch_id={batch_id}"


def write_parquet(sink: ParquetSink, rows: DataFrame, batch_id: int) -> None:
    """Write the rows of batch `batch_id`, in place of what an earlier try of it left."""
    rows.write.mode("overwrite").parquet(batch_directory(sink.path, batch_id))
