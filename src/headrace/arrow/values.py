"""Values that are JSON or CSV as Arrow columns of a given schema, many at once, by Arrow's own readers.

One value is one row. A value that does not fit is found by halving: whoever reads gets a row of nulls that is marked, never a shift of rows
and never half a value. Nothing depends on the neighbours of a value: the same value gives the same row in every batch.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from numpy.typing import NDArray

from headrace.arrow.json_misfits import misfits
from headrace.core.errors import OperatorError

VALUE_FORMATS: Final = ("json", "csv")
"""What needs no registry of schemas."""
REGISTERED_FORMATS: Final = ("avro", "protobuf", "json")

_TOP_LEVEL_NULL: Final = r"(^|\})[ \t\r\n]*null"
_NULL_BEHIND: Final = r"\}[ \t\r\n]*null"
_OPENING, _CLOSING = ord("{"), ord("}")
_MARK: Final = pa.field(secrets.token_hex(8), pa.bool_())
"""The field of the rows between values; by chance, so that no value can hold it on purpose."""
_MARKED_LINE: Final = f'\n{{"{_MARK.name}":true}}\n'


class _Unfit(Exception):
    """Among these values there is one that does not fit."""


_UNFIT: Final = (_Unfit, pa.ArrowInvalid, UnicodeDecodeError)
_SIFTED_AT_ONCE: Final = 256
"""Among so many values those that do not fit are looked for one by one in Python; of more, halves are decoded first, since few of them may be bad."""


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
    for column in schema:
        kinds = _leaves(column.type)
        if value_format == "csv" and pa.types.is_nested(column.type):
            raise OperatorError(f"{column.name}: csv has no arrays and structs")
        unread = next((each for each in kinds if _is_unread(each, value_format)), None)
        if unread is not None:
            raise OperatorError(
                f"{column.name}: {value_format} has no {_NAMES.get(str(unread), unread)}; take it as a string or timestamp"
            )


_NAMES: Final = {"date32[day]": "date", "timestamp[us]": "timestamp_ntz"}


def _is_unread(kind: pa.DataType, value_format: str) -> bool:
    """Whether Arrow's reader of the format does not make this type, or not as Spark would."""
    if pa.types.is_binary(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        return True
    return value_format == "json" and pa.types.is_date(kind)


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(kind):
        raise OperatorError(f"{kind}: only avro and protobuf have maps")
    if not pa.types.is_nested(kind):
        return [kind]
    return [leaf for each in range(kind.num_fields) for leaf in _leaves(kind.field(each).type)]


def decode_values(values: pa.Array, schema: pa.Schema, *, value_format: str) -> DecodedValues:
    """The values (binary) as structs of `schema`. Fields that a JSON object lacks are null, those that the schema lacks are left out."""
    check_value_schema(schema, value_format)
    kind = pa.struct(list(schema))
    is_given = values.is_valid()
    given = values.filter(is_given) if values.null_count else values
    rows, is_bad = (
        _decoded(given, schema, value_format) if len(given) else (pa.nulls(0, kind), pa.array([], pa.bool_()))
    )
    if values.null_count:
        places = np.cumsum(is_given.to_numpy(zero_copy_only=False)) - 1
        index = pa.array(places, mask=~is_given.to_numpy(zero_copy_only=False))
        rows, is_bad = rows.take(index), pc.fill_null(is_bad.take(index), fill_value=False)
    return DecodedValues(rows=rows, is_bad=is_bad)


def _decoded(values: pa.Array, schema: pa.Schema, value_format: str) -> tuple[pa.Array, pa.BooleanArray]:
    """A struct for each value, none of which is null, and which are bad. Where some are, each is looked at once, however often it comes: a batch of a few bytes may hold it very often."""
    halving = _Halving(schema, _json_rows if value_format == "json" else _csv_rows)
    try:
        return halving.decode(values, schema), pa.array(np.zeros(len(values), dtype=np.bool_))
    except _UNFIT:
        pass
    coded = values.dictionary_encode()
    halving.halve(coded.dictionary, is_sifted=value_format != "json")
    return halving.rows().take(coded.indices), pa.array(halving.is_bad()).take(coded.indices)


@dataclass(slots=True)
class _Halving:
    """Decodes values all at once, or else each half; one value alone that cannot be decoded is bad."""

    schema: pa.Schema
    decode: Callable[[pa.Array, pa.Schema], pa.Array]
    _parts: list[pa.Array] = field(default_factory=list)
    _bad: list[NDArray[np.bool_]] = field(default_factory=list)

    def halve(self, values: pa.Array, *, is_sifted: bool) -> None:
        """Decode one or more values; with `is_sifted` none of them is a misfit that `json_misfits` tells."""
        try:
            found = self.decode(values, self.schema)
        except _UNFIT:
            if len(values) == 1:
                self._note(pa.nulls(1, pa.struct(list(self.schema))), np.ones(1, dtype=np.bool_))
            elif not is_sifted and len(values) <= _SIFTED_AT_ONCE:
                self._sift(values)
            else:
                middle = len(values) // 2
                self.halve(values.slice(0, middle), is_sifted=is_sifted)
                self.halve(values.slice(middle), is_sifted=is_sifted)
            return
        self._note(found, np.zeros(len(values), dtype=np.bool_))

    def rows(self) -> pa.Array:
        """The structs so far."""
        return pa.concat_arrays(self._parts)

    def is_bad(self) -> NDArray[np.bool_]:
        """Which of them are of bad values."""
        return np.concatenate(self._bad)

    def _sift(self, values: pa.Array) -> None:
        is_bad = misfits(values, self.schema)
        left = np.flatnonzero(~is_bad)
        index = np.full(len(values), -1)
        index[left] = np.arange(len(left))
        others = _Halving(self.schema, self.decode)
        if len(left):
            others.halve(values.take(pa.array(left)), is_sifted=True)
            is_bad[left] = others.is_bad()
        rows = others.rows() if len(left) else pa.nulls(0, pa.struct(list(self.schema)))
        self._note(rows.take(pa.array(index, mask=index < 0)), is_bad)

    def _note(self, rows: pa.Array, is_bad: NDArray[np.bool_]) -> None:
        self._parts.append(rows)
        self._bad.append(is_bad)


def _json_rows(values: pa.Array, schema: pa.Schema) -> pa.Array:
    """A struct for each value, or an error if one does not fit.

    The reader takes objects wherever they begin, not lines. Where every value begins with `{` and ends with `}`, a line end between them cannot be within an object: a
    string has none, and nothing that is open there goes on with `{`. So each value is one object or more, and as many rows as values means one each.
    """
    text = values.cast(pa.string())
    if _are_objects(text):
        data = _bytes_of(pc.binary_join_element_wise(text, "\n", ""))
        raw = pa.py_buffer(data)
        if not _has_doubtful(text, raw):
            table = _read_json(raw, schema)
            if table.num_rows != len(text):
                raise _Unfit
            return _structs(table, None, schema, None)
    return _marked_json_rows(text, schema)


def _are_objects(text: pa.Array) -> bool:
    """Whether every text begins and ends as an object does."""
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    if text.buffers()[2] is None or not (offsets[1:] > offsets[:-1]).all():
        return False
    data = np.frombuffer(text.buffers()[2], dtype=np.uint8)
    return bool((data[offsets[:-1]] == _OPENING).all() and (data[offsets[1:] - 1] == _CLOSING).all())


def _has_doubtful(text: pa.Array, raw: pa.Buffer) -> bool:
    """Whether there is what the reader stops at or does not survive: a zero byte, a `null` behind an object."""
    data = memoryview(raw)
    whole = np.frombuffer(data, dtype=np.uint8)
    if not whole.all():
        return True
    return bool(pc.match_substring_regex(text, _NULL_BEHIND).true_count)


def _read_json(raw: pa.Buffer, schema: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(raw),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=raw.size + 1),
        parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _marked_json_rows(text: pa.Array, schema: pa.Schema) -> pa.Array:
    """The same for any texts. A marked row stands before each value and behind the last, so a value that is none, or more than one, or reaches into its neighbour,
    shows: not all marks are there, or not at every other place.
    """
    data, is_null = _marked(text), None
    if b"null" in data and (is_null := _checked_nulls(text)) is not None:
        data = _marked(pc.if_else(is_null, "{}", text))
    count = len(text)
    table = _read_json(pa.py_buffer(data), pa.schema([*schema, _MARK]))
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


def _structs(table: pa.Table, chosen: pa.Array | None, schema: pa.Schema, is_null: pa.Array | None) -> pa.Array:
    """The chosen rows (None: all) as structs."""
    columns = [table.column(name).combine_chunks() for name in schema.names]
    if chosen is not None:
        columns = [each.take(chosen) for each in columns]
    columns = [each.cast(schema.field(name).type) for each, name in zip(columns, schema.names, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(schema), mask=is_null)
