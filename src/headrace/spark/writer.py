"""Frames and streams that Spark writes to topics.

At least once, as Spark's `kafka` sink: within a task the producer is idempotent, so retries of requests repeat nothing; a task or a batch that
Spark runs again writes its rows again. A task that fails may leave rows behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa


class WrittenRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not followed by the type check
    """What a task tells the driver: rows written by topic, and in how many record batches."""

    def __init__(self, rows: Mapping[str, int], batches: int) -> None:
        self.rows = rows
        self.batches = batches


class HeadraceWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Writes the rows of a batch query."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """One task's rows."""
        return _write(self._options, iterator)


class HeadraceStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Writes the rows of each micro-batch; every output mode appends, as a topic cannot be changed."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """One task's rows of one micro-batch."""
        return _write(self._options, iterator, is_stream=True)


def _write(options: WriteOptions, batches: Iterator[pa.RecordBatch], *, is_stream: bool = False) -> WrittenRows:
    from headrace.spark.row_writer import write_rows

    context = TaskContext.get()
    task = 0 if context is None else context.taskAttemptId()
    written = write_rows(options, batches, task=task, is_stream=is_stream)
    return WrittenRows(written.rows, written.batches)
