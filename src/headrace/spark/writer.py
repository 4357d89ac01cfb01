"""How does Spark write a frame or a stream to topics?

At least once, as Spark's `kafka` sink: within a task the producer is idempotent, so retries of requests repeat nothing; a task or a batch that
Spark runs again writes its rows again. A task that fails may leave rows behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.spark.row_writer import Written, write_rows
from headrace.spark.write_options import WriteOptions


class WrittenRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not followed by the type check
    """What a task tells the driver: rows written by topic, and in how many record batches."""

    def __init__(self, written: Written) -> None:
        self.rows: Mapping[str, int] = written.rows
        self.batches = written.batches


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
        return _write(self._options, iterator)


def _write(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    return WrittenRows(write_rows(options, batches, task=task))
