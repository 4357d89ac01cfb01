"""The forms of an export: Parquet, Arrow's stream, CSV, and JSON with an object a line."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from headrace.core.errors import OperatorError

Write = Callable[[pa.RecordBatch], None]
_TEXT: Final = pa.string()


class _Stream:
    """A file for pyarrow that need not be able to seek, such as a pipe; its position is counted."""

    closed = False

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._position = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._out.write(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        """The file is closed by who opened it."""


@contextmanager
def open_sink(format_: str, out: IO[bytes], schema: pa.Schema, *, bytes_as: str) -> Iterator[Write]:
    """A function that writes record batches of `schema` in one form; what the form needs at its end is written at the end of the `with`."""
    stream = pa.PythonFile(_Stream(out), mode="w")
    if format_ == "parquet":
        with pa.parquet.ParquetWriter(stream, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif format_ == "arrow":
        with pa.ipc.new_stream(stream, schema) as arrow:
            yield arrow.write_batch
    elif format_ == "csv":
        plain = pa.schema([pa.field(each.name, _plain_type(each.type, is_flat=True)) for each in schema])
        with pa.csv.CSVWriter(stream, plain) as csv:
            yield lambda rows: csv.write_batch(
                pa.RecordBatch.from_arrays(_plain(rows, bytes_as, is_flat=True), schema=plain)
            )
    else:
        names = schema.names

        def write(rows: pa.RecordBatch) -> None:
            columns = [each.to_pylist() for each in _plain(rows, bytes_as, is_flat=False)]
            lines = [
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in zip(*columns, strict=True)
            ]
            out.write(("\n".join(lines) + "\n").encode())

        yield write


def _plain_type(kind: pa.DataType, *, is_flat: bool) -> pa.DataType:
    """The type in which csv and json show a column."""
    is_number = pa.types.is_integer(kind)
    is_kept = is_number or (pa.types.is_list(kind) and not is_flat)
    return kind if is_kept else _TEXT


def _plain(rows: pa.RecordBatch, bytes_as: str, *, is_flat: bool) -> list[pa.Array]:
    """The columns as numbers and text; headers as lists, or with `is_flat` as JSON."""
    return [_plain_column(rows, name, bytes_as, is_flat=is_flat) for name in rows.schema.names]


def _plain_column(rows: pa.RecordBatch, name: str, bytes_as: str, *, is_flat: bool) -> pa.Array:
    column = rows.column(name)
    if pa.types.is_binary(column.type):
        return _shown(column, name, bytes_as)
    if pa.types.is_list(column.type):
        return _headers(column, name, bytes_as, is_flat=is_flat)
    return column if pa.types.is_integer(column.type) else column.cast(_TEXT)


def _headers(column: pa.Array, name: str, bytes_as: str, *, is_flat: bool) -> pa.Array:
    entries = column.flatten()
    values = _shown(entries.field("value"), name, bytes_as)
    shown = pa.StructArray.from_arrays([entries.field("key"), values], names=["key", "value"])
    lists = pa.ListArray.from_arrays(
        pa.array([*_ends(column)], type=pa.int32()), shown, mask=column.is_null() if len(column) else None
    )
    if not is_flat:
        return lists
    return pa.array(
        [None if each is None else json.dumps(each, ensure_ascii=False) for each in lists.to_pylist()], type=_TEXT
    )


def _ends(column: pa.Array) -> Iterator[int]:
    """Where each list begins among all entries, and the end of the last."""
    at = 0
    yield at
    for length in column.value_lengths().to_pylist():
        at += length or 0
        yield at


def _shown(column: pa.Array, name: str, bytes_as: str) -> pa.Array:
    """Bytes as text. Raises OperatorError where they are none and nobody asked for base64: nothing is replaced silently."""
    if bytes_as == "base64":
        return pa.array(
            [None if each is None else base64.b64encode(each).decode() for each in column.to_pylist()], type=_TEXT
        )
    try:
        return column.cast(_TEXT)
    except pa.ArrowInvalid:
        raise OperatorError(f"bytes of the column {name} are no UTF-8 text: say --bytes base64") from None
