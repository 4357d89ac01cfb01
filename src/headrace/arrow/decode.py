"""The decoder of a fetched topic range into Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.arrow.columns import (
    RecordFields,
    append_time_flags,
    binary_column,
    long_column,
    read_fields,
    record_times,
    timestamp_column,
)
from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.frames import AbortedTransaction, FrameLimits, Frames, scan
from headrace.arrow.headers import HeaderEntries, headers_column, read_headers
from headrace.arrow.record_ends import in_parts
from headrace.arrow.schema import CREATE_TIME, LOG_APPEND_TIME, chosen_fields, rows_schema


@dataclass(slots=True, kw_only=True)
class RangeDecoder:
    """Turns fetch answers of one topic partition into record batches with the columns of `rows_schema`, or only those that `columns` names, in its order.

    Columns that are not wanted are not made; what proves that records are whole is read all the same. Holds no position: what to decode is said at each call, and the same call gives the same rows. One for each task; not thread-safe.
    """

    topic: str
    partition: int
    include_headers: bool = False
    columns: Sequence[str] | None = None
    limits: FrameLimits = field(default_factory=FrameLimits)
    _topic_column: pa.Array = field(init=False, default=None)
    _schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        all_columns = rows_schema(include_headers=self.include_headers)
        self._schema = all_columns if self.columns is None else chosen_fields(self.columns)

    def decode(
        self,
        records: memoryview,
        *,
        start_offset: int,
        end_offset: int,
        aborted: Sequence[AbortedTransaction] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The records with offsets from `start_offset` up to `end_offset` (exclusive) that `records` holds, in order; no empty batches.

        `records` is what a fetch answer carries: whole batches, the last one perhaps cut. Control batches are left out, and with `aborted`
        (read_committed) so are those of aborted transactions. Raises DecodeError for bytes that cannot be right (B52, B53).
        """
        groups = scan(records, start_offset=start_offset, end_offset=end_offset, aborted=aborted, limits=self.limits)
        last_offset = -1
        for group in groups:
            for frames in in_parts(group, self.limits.max_rows):
                fields = read_fields(frames)
                if fields.offsets[0] <= last_offset:
                    raise CorruptRecords("record offsets are out of order")
                last_offset = int(fields.offsets[-1])
                batch = self._rows(frames, fields, start_offset, end_offset)
                if batch.num_rows:
                    yield batch

    def _rows(self, frames: Frames, fields: RecordFields, start_offset: int, end_offset: int) -> pa.RecordBatch:
        buffer = np.frombuffer(frames.payload, dtype=np.uint8)
        entries = read_headers(buffer, fields)
        columns = [self._column(name, frames, fields, entries) for name in self._schema.names]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return _bounded(rows, fields, start_offset, end_offset)

    def _column(self, name: str, frames: Frames, fields: RecordFields, entries: HeaderEntries) -> pa.Array:
        match name:
            case "key":
                return binary_column(frames.payload, fields.keys)
            case "value":
                return binary_column(frames.payload, fields.values)
            case "topic":
                return self._topics(len(fields.offsets))
            case "partition":
                return _ints(np.full(len(fields.offsets), self.partition, dtype=np.int32))
            case "offset":
                return long_column(fields.offsets)
            case "timestamp":
                return timestamp_column(record_times(frames, fields))
            case "timestampType":
                return _ints(np.where(append_time_flags(frames, fields), LOG_APPEND_TIME, CREATE_TIME).astype(np.int32))
            case _:
                return headers_column(frames.payload, entries)

    def _topics(self, count: int) -> pa.Array:
        """The topic's name `count` times; the longest column made so far is kept and cut."""
        if self._topic_column is None or len(self._topic_column) < count:
            self._topic_column = _repeated(self.topic.encode(), count)
        return self._topic_column.slice(0, count)


def _repeated(text: bytes, count: int) -> pa.Array:
    """A column of one text; made of buffers because `pa.scalar` would import pandas into each worker."""
    offsets = np.arange(0, (count + 1) * len(text), len(text), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text * count)])


def _ints(values: NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])


def _bounded(rows: pa.RecordBatch, fields: RecordFields, start_offset: int, end_offset: int) -> pa.RecordBatch:
    """The rows within the offsets; a view when some fall out."""
    offsets = fields.offsets
    if offsets[0] >= start_offset and offsets[-1] < end_offset:
        return rows
    first, end = np.searchsorted(offsets, [start_offset, end_offset])
    return rows.slice(int(first), int(end - first))
