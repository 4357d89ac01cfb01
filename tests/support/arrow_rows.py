"""What do the plain reader and the vectorised one make of the same bytes, in one comparable form?"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.arrow.decode import RangeDecoder
from headrace.arrow.frames import AbortedTransaction, FrameLimits
from headrace.records.batch import iter_batches
from headrace.records.record import read_records

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
EVERYTHING = 1 << 62


def plain_rows(records: bytes) -> list[Row]:
    """Offset, time, key, value, headers of each record, read one by one; control batches left out."""
    rows: list[Row] = []
    for position, header in iter_batches(records):
        if not header.is_control:
            found = read_records(records, position)
            rows += [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in found]
    return rows


def arrow_batches(
    records: bytes,
    *,
    start: int = 0,
    end: int = EVERYTHING,
    aborted: Sequence[AbortedTransaction] | None = None,
    limits: FrameLimits | None = None,
    columns: Sequence[str] | None = None,
) -> list[pa.RecordBatch]:
    """The record batches that the vectorised reader makes, with all columns if none are named."""
    decoder = RangeDecoder(
        topic="t", partition=7, include_headers=True, columns=columns, limits=limits or FrameLimits()
    )
    return list(decoder.decode(memoryview(records), start_offset=start, end_offset=end, aborted=aborted))


def arrow_rows(
    records: bytes, *, start: int = 0, end: int = EVERYTHING, limits: FrameLimits | None = None
) -> list[Row]:
    """The same rows as `plain_rows`, from the vectorised reader."""
    rows: list[Row] = []
    for batch in arrow_batches(records, start=start, end=end, limits=limits):
        batch.validate(full=True)
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        headers = [
            tuple((each["key"], each["value"]) for each in row or ()) for row in batch.column("headers").to_pylist()
        ]
        columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value")]
        rows += [
            (offset, time // 1000, key, value, entries)
            for offset, key, value, time, entries in zip(*columns, times, headers, strict=True)
        ]
    return rows
