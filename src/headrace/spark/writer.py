"""Frames and streams that Spark writes to topics.

At least once, as Spark's `kafka` sink: within a task the producer is idempotent, so retries of requests repeat nothing; a task or a batch that
Spark runs again writes its rows again. A task that fails may leave rows behind. With the option `writeOrigin` a reader can tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.core.errors import OperatorError
from headrace.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.origin import Origin

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


class WrittenRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not followed by the type check
    """What a task tells the driver: rows written by topic, and in how many record batches."""

    def __init__(self, rows: Mapping[str, int], batches: int) -> None:
        self.rows = rows
        self.batches = batches


class HeadraceWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Writes the rows of a batch query; `run` is a name that no other write has."""

    def __init__(self, options: WriteOptions, *, run: str) -> None:
        self._options = options
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """One task's rows."""
        return _write(self._options, iterator, run=self._run)


class HeadraceStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Writes the rows of each micro-batch; every output mode appends, as a topic cannot be changed."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """One task's rows of one micro-batch."""
        return _write(self._options, iterator)


def _write(options: WriteOptions, batches: Iterator[pa.RecordBatch], *, run: str | None = None) -> WrittenRows:
    """`run` names a batch write; a stream, which has none, is known by the properties of its tasks."""
    from headrace.spark.row_writer import write_rows

    context = TaskContext.get()
    task = 0 if context is None else context.taskAttemptId()
    origin = _origin(context, run) if options.has_origin else None
    written = write_rows(options, batches, task=task, is_stream=run is None, origin=origin)
    return WrittenRows(written.rows, written.batches)


def _origin(context: TaskContext | None, run: str | None) -> Origin:
    """What Spark says of this task; the same when it runs the task, or the batch, again."""
    from headrace.spark.origin import Origin

    if context is None:
        raise OperatorError("writeOrigin: this is no task of Spark's; write without the option")
    if run is not None:
        return Origin(run=run, batch=0, partition=context.partitionId())
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if not query or not batch:
        raise OperatorError(
            "writeOrigin: this Spark does not tell tasks their query and batch; write without the option"
        )
    return Origin(run=query, batch=int(batch), partition=context.partitionId())
