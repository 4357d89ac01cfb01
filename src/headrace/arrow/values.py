"""Values that are JSON or CSV as Arrow columns of a given schema, many at once, by Arrow's own readers.

One value is one row. A value that does not fit is found by halving: whoever reads gets a row of nulls that is marked, never a shift of rows
and never half a value. Nothing depends on the neighbours of a value: the same value gives the same row in every batch.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError

VALUE_FORMATS: Final = ("json", "csv")

_TOP_LEVEL_NULL: Final = r"(^|\})[ \t\r\n]*null"
_MARK: Final = pa.field(secrets.token_hex(8), pa.bool_())
"""The field of the rows between values; by chance, so that no value can hold it on purpose."""
_MARKED_LINE: Final = f'\n{{"{_MARK.name}":true}}\n'


class _Unfit(Exception):
    """Among these values there is one that does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumns:
    """How values are decoded: the format, the schema, and the column that gets what does not fit (None: that is an error)."""

    value_format: str
    schema: pa.Schema
    rescued_column: str | None = None

    def __post_init__(self) -> None:
        check_value_schema(self.schema, self.value_format)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValues:
    """A struct for each value; null where the value was null (or JSON's null) or did not fit, and `is_bad` tells the latter."""

    rows: pa.StructArray
    is_bad: pa.BooleanArray


def check_value_schema(schema: pa.Schema, value_format: str) -> None:
    """Raise OperatorError for a format that is not known, or types that it cannot have."""
    if value_format not in VALUE_FORMATS:
        raise OperatorError(f"valueFormat={value_format}: must be {' or '.join(VALUE_FORMATS)}")
    names = [each.name for each in schema]
    if not names or len(set(names)) != len(names):
        raise OperatorError("a schema of values names at least one column, and none twice")
    for field in schema:
        kinds = _leaves(field.type)
        if value_format == "csv" and pa.types.is_nested(field.type):
            raise OperatorError(f"{field.name}: csv has no arrays and structs")
        if value_format == "json" and any(pa.types.is_date(each) for each in kinds):
            raise OperatorError(f"{field.name}: json has no dates; take it as a string or timestamp")


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    if not pa.types.is_nested(kind):
        return [kind]
    return [leaf for each in range(kind.num_fields) for leaf in _leaves(kind.field(each).type)]


def decode_rows(rows: pa.RecordBatch, columns: ValueColumns) -> pa.RecordBatch:
    """Rows of a topic with the struct of the decoded value in the place of the column `value`.

    A value that does not fit is kept as it came in the rescued column, which is null for all others. Raises PeerError with the place of the
    first where there is no such column.
    """
    values = rows.column("value")
    found = decode_values(values, columns.schema, value_format=columns.value_format)
    arrays = [found.rows if name == "value" else rows.column(name) for name in rows.schema.names]
    names = list(rows.schema.names)
    if columns.rescued_column is not None:
        names.append(columns.rescued_column)
        arrays.append(pc.if_else(found.is_bad, values, pa.nulls(len(values), pa.binary())))
    elif found.is_bad.true_count:
        at = found.is_bad.index(pa.scalar(value=True)).as_py()
        place = f"{rows.column('topic')[at]}-{rows.column('partition')[at]} offset {rows.column('offset')[at]}"
        raise PeerError(
            ErrorCode.INVALID_RECORD,
            f"{place}: the value is no {columns.value_format} of the schema {columns.schema.names}; "
            "name a rescuedColumn to keep such values and go on",
        )
    return pa.RecordBatch.from_arrays(arrays, names=names)


def decode_values(values: pa.Array, schema: pa.Schema, *, value_format: str) -> DecodedValues:
    """The values (binary) as structs of `schema`. Fields that a JSON object lacks are null, those that the schema lacks are left out."""
    check_value_schema(schema, value_format)
    kind = pa.struct(list(schema))
    is_given = values.is_valid()
    given = values.filter(is_given) if values.null_count else values
    parts: list[pa.Array] = []
    bad: list[bool] = []
    if len(given):
        _halve(given, schema, _json_rows if value_format == "json" else _csv_rows, parts, bad)
    rows = pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
    is_bad = pa.array(bad, type=pa.bool_())
    if values.null_count:
        places = np.cumsum(is_given.to_numpy(zero_copy_only=False)) - 1
        index = pa.array(places, mask=~is_given.to_numpy(zero_copy_only=False))
        rows, is_bad = rows.take(index), pc.fill_null(is_bad.take(index), fill_value=False)
    return DecodedValues(rows=rows, is_bad=is_bad)


def _halve(
    values: pa.Array,
    schema: pa.Schema,
    decode: Callable[[pa.Array, pa.Schema], pa.Array],
    parts: list[pa.Array],
    bad: list[bool],
) -> None:
    """Decode all at once, or else each half; one value alone that cannot be decoded is bad."""
    try:
        found = decode(values, schema)
    except (_Unfit, pa.ArrowInvalid, UnicodeDecodeError):
        if len(values) == 1:
            parts.append(pa.nulls(1, pa.struct(list(schema))))
            bad.append(True)
            return
        middle = len(values) // 2
        _halve(values.slice(0, middle), schema, decode, parts, bad)
        _halve(values.slice(middle), schema, decode, parts, bad)
        return
    parts.append(found)
    bad.extend([False] * len(values))


def _json_rows(values: pa.Array, schema: pa.Schema) -> pa.Array:
    """A struct for each value, or an error if one does not fit.

    The reader takes objects wherever they begin, not lines. A marked row stands before each value and behind the last, so a value that is
    none, or more than one, or reaches into its neighbour, shows: not all marks are there, or not at every other place.
    """
    text = values.cast(pa.string())
    data, is_null = _marked(text), None
    if b"null" in data and (is_null := _checked_nulls(text)) is not None:
        data = _marked(pc.if_else(is_null, "{}", text))
    count = len(text)
    table = pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema([*schema, _MARK]), unexpected_field_behavior="ignore"
        ),
    )
    is_mark = table.column(_MARK.name).combine_chunks().is_valid().to_numpy(zero_copy_only=False)
    if len(is_mark) != 2 * count + 1 or not is_mark[::2].all() or is_mark[1::2].any():
        raise _Unfit
    return _structs(table, pa.array(np.arange(count) * 2 + 1), schema, is_null)


def _marked(text: pa.Array) -> bytes:
    """The text for Arrow's reader, with its marked rows."""
    return b"".join((_MARKED_LINE.encode(), _bytes_of(pc.binary_join_element_wise(text, _MARKED_LINE, ""))))


def _checked_nulls(text: pa.Array) -> pa.Array | None:
    """Which values are JSON's `null`, which Arrow's reader does not survive as a row (None: none are); raises _Unfit where one stands behind an object."""
    suspects = pc.match_substring_regex(text, _TOP_LEVEL_NULL)
    if not suspects.true_count:
        return None
    is_null = np.zeros(len(text), dtype=np.bool_)
    for at in np.flatnonzero(suspects.to_numpy(zero_copy_only=False)):
        try:
            is_null[at] = json.loads(text[int(at)].as_py()) is None
        except (ValueError, RecursionError):
            raise _Unfit from None
    return pa.array(is_null)


def _csv_rows(values: pa.Array, schema: pa.Schema) -> pa.Array:
    """A struct for each value, or an error if one does not fit.

    Values with line ends inside are read alone; of the others each row begins where a line does, so the right number of rows means that each
    line is one. The line at the end shows a quote that was not closed.
    """
    text = pc.utf8_rtrim(values.cast(pa.string()), characters="\r\n")
    count = len(text)
    if count > 1 and pc.match_substring_regex(text, "[\r\n]").true_count:
        raise _Unfit
    lines = pc.binary_join_element_wise(text, "\n", "")
    data = b"".join((b"-\n", _bytes_of(lines), b"," * (len(schema) - 1), b"\n"))
    table = pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=schema.names, skip_rows=1
        ),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    if table.num_rows != count + 1:
        raise _Unfit
    return _structs(table, pa.array(np.arange(count)), schema, None)


def _bytes_of(column: pa.Array) -> memoryview:
    """The bytes of all texts, one behind the other."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return memoryview(column.buffers()[2])[int(offsets[0]) : int(offsets[-1])]


def _structs(table: pa.Table, chosen: pa.Array, schema: pa.Schema, is_null: pa.Array | None) -> pa.Array:
    columns = [table.column(name).combine_chunks().take(chosen).cast(schema.field(name).type) for name in schema.names]
    return pa.StructArray.from_arrays(columns, fields=list(schema), mask=is_null)
