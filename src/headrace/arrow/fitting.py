"""Columns as one schema wrote them, as the columns that a reader wants: fields by name, numbers widened, what is missing filled in.

The rules are those of Avro's schema resolution. A wanted field may say in its metadata by which other names it goes, and what it is where the writer had no such
field: a value in JSON, or that there is none (else it is null).
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

ALIASES: Final = b"headrace.aliases"
DEFAULT: Final = b"headrace.default"
REQUIRED: Final = b"headrace.required"

_LOSSLESS: Final = {
    "int8": ("int16", "int32", "int64", "float", "double"),
    "int16": ("int32", "int64", "float", "double"),
    "int32": ("int64", "float", "double", "date32[day]"),
    "int64": ("float", "double"),
    "uint32": ("int64",),
    "uint64": ("decimal128(20, 0)",),
    "float": ("double",),
    "string": ("binary",),
    "binary": ("string",),
    "time64[us]": ("int64",),
}  # fmt: skip


def misfit(have: pa.DataType, want: pa.DataType, path: str = "value") -> str | None:
    """Why columns of type `have` cannot be read as `want`; None where they can."""
    if have.equals(want) or pa.types.is_null(have):
        return None
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        for at in range(want.num_fields):
            field = want.field(at)
            found = _index(have, field)
            where = f"{path}.{field.name}"
            if found >= 0:
                problem = misfit(have.field(found).type, field.type, where)
            else:
                is_required = REQUIRED in (field.metadata or {})
                problem = f"{where} was not written and has no default" if is_required else None
            if problem is not None:
                return problem
        return None
    if pa.types.is_list(have) and pa.types.is_list(want):
        return misfit(have.value_type, want.value_type, f"{path}[]")
    if pa.types.is_map(have) and pa.types.is_map(want):
        problem = misfit(have.key_type, want.key_type, f"{path} (key)")
        return problem or misfit(have.item_type, want.item_type, f"{path} (value)")
    if pa.types.is_decimal(have) and pa.types.is_decimal(want):
        fits = want.scale >= have.scale and want.precision - want.scale >= have.precision - have.scale
    elif pa.types.is_timestamp(have) and pa.types.is_timestamp(want):
        fits = True
    else:
        fits = str(want) in _LOSSLESS.get(str(have), ())
    return None if fits else f"{path} was written as {have} and cannot be read as {want}"


def _index(have: pa.StructType, field: pa.Field) -> int:
    """Where the writer has the field, by its name or an alias; -1 where it has not."""
    aliases = json.loads((field.metadata or {}).get(ALIASES, b"[]"))
    for name in (field.name, *aliases):
        found: int = have.get_field_index(name)
        if found >= 0:
            return found
    return -1


def fit(array: pa.Array, want: pa.DataType) -> pa.Array:
    """The array as `want`, into which it fits by `misfit`. Raises pa.ArrowInvalid for a value that does not (text that is no UTF-8)."""
    have = array.type
    if have.equals(want, check_metadata=True):
        return array
    if pa.types.is_null(have):
        return pa.nulls(len(array), plain(want))
    if array.offset:
        array = array.take(pa.array(range(len(array)), pa.int64()))
    is_null = array.is_null() if array.null_count else None
    if pa.types.is_struct(have):
        columns = [_column(array, want.field(at)) for at in range(want.num_fields)]
        fields = [plain_field(want.field(at)) for at in range(want.num_fields)]
        if not fields:
            return array.cast(plain(want))
        return pa.StructArray.from_arrays(columns, fields=fields, mask=is_null)
    if pa.types.is_list(have):
        values = fit(array.values, want.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=plain(want), mask=is_null)
    if pa.types.is_map(have):
        keys, items = fit(array.keys, want.key_type), fit(array.items, want.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=plain(want), mask=is_null)
    return array.cast(want)


def _column(array: pa.StructArray, field: pa.Field) -> pa.Array:
    found = _index(array.type, field)
    if found >= 0:
        return fit(array.field(found), field.type)
    default = (field.metadata or {}).get(DEFAULT)
    kind = plain(field.type)
    if default is None:
        return pa.nulls(len(array), kind)
    value = _valued(json.loads(default), kind)
    return pa.array([value], kind).take(pa.array([0] * len(array), pa.int64()))


def _valued(value: Any, kind: pa.DataType) -> Any:
    """Avro's JSON of a default as Python's value for the Arrow type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {each.name: _valued(value.get(each.name), each.type) for each in fields}
    if pa.types.is_list(kind):
        return [_valued(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(name, _valued(each, kind.item_type)) for name, each in value.items()]
    if pa.types.is_decimal(kind):
        return Decimal(int.from_bytes(value.encode("latin-1"), signed=True)).scaleb(-kind.scale)
    if pa.types.is_binary(kind):
        return value.encode("latin-1")
    if pa.types.is_timestamp(kind):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        return moment if kind.tz else moment.replace(tzinfo=None)
    return date(1970, 1, 1) + timedelta(days=value) if pa.types.is_date(kind) else value


def plain(kind: pa.DataType) -> pa.DataType:
    """The type without the metadata of its fields."""
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(kind.field(at)) for at in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    return kind


def plain_field(field: pa.Field) -> pa.Field:
    """The field without metadata; it may be null."""
    return pa.field(field.name, plain(field.type))


def readable(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for what was written as `kind`: all nullable, signed, times in microseconds."""
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, readable(each.type)) for each in fields])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", readable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(readable(kind.key_type), readable(kind.item_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    named = {"uint32": pa.int64(), "uint64": pa.decimal128(20, 0), "time64[us]": pa.int64(), "null": pa.string()}
    return named.get(str(kind), kind)
