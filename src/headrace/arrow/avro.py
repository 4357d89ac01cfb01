"""Values of one Avro schema as Arrow columns.

Schemas of all but `fixed` and unions of several types are decoded by compiled code without an object for each record (pyruhvro); the others record by record
(fastavro). The compiled code has no `bytes`, but texts have the same encoding and it does not look at them: they are decoded as texts, and become what they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.fitting import ALIASES, DEFAULT, REQUIRED
from headrace.arrow.schema_bounds import NOT_UNDERSTOOD, TypeCount, in_short
from headrace.core.errors import OperatorError

Schema = Any  # what JSON makes of it: a name, a list (union), or an object
_PRIMITIVE: Final = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_TIMES: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_COMPILED_TIMES: Final = ("date", "timestamp-millis", "timestamp-micros")
_RECORD_TIMES: Final = (*_COMPILED_TIMES, "local-timestamp-millis", "local-timestamp-micros", "decimal")
_MOST_DEPTH: Final = 50
_DECIMAL_DIGITS: Final = 38
_DECIMAL_BYTES: Final = 16
_SIGN: Final = 0x80


class AvroSchema:
    """An Avro schema of a record: its Arrow type, and a decoder of values that it wrote."""

    def __init__(self, text: str, referenced: Sequence[str] = ()) -> None:
        """`referenced` are the schemas that it names, those first that others name. Raises OperatorError for one that cannot be columns."""
        self._names: dict[str, Schema] = {}
        self._count = TypeCount("the Avro schema")
        self.type: pa.StructType
        try:
            for each in referenced:
                self._inlined(json.loads(each), "", 0)
            schema = self._inlined(json.loads(text), "", 0)
            if not isinstance(schema, dict) or schema["type"] != "record":
                raise OperatorError("the Avro schema is no record, so it has no columns")
            self.type = _arrow(schema)
            self._decode = _compiled(schema) if _is_compiled(schema) else _by_record(schema, self.type)
        except NOT_UNDERSTOOD as error:
            raise OperatorError(f"the Avro schema is not understood: {in_short(error)}") from None

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """The values as structs. Raises ValueError where one does not fit."""
        return self._decode(values)

    def _inlined(self, schema: Schema, namespace: str, depth: int) -> Schema:
        """The schema with the definition in the place of each name. Raises OperatorError for one that holds itself."""
        if depth > _MOST_DEPTH:
            raise OperatorError("the Avro schema holds itself or is nested too deep, so it has no columns")
        self._count.add()
        if isinstance(schema, list):
            return [self._inlined(each, namespace, depth + 1) for each in schema]
        if isinstance(schema, str):
            if schema in _PRIMITIVE:
                return {"type": schema}
            full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            within = full.rpartition(".")[0]
            return self._inlined(self._names[full], within, depth + 1)
        kind = schema["type"]
        if isinstance(kind, dict | list) or (kind not in _PRIMITIVE and kind not in _COMPLEX):
            return self._inlined(kind, namespace, depth + 1)
        if kind == "array":
            return {**schema, "items": _countable(self._inlined(schema["items"], namespace, depth + 1))}
        if kind == "map":
            return {**schema, "values": self._inlined(schema["values"], namespace, depth + 1)}
        if kind in ("record", "error", "enum", "fixed"):
            name = schema["name"]
            space = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
            full = name if "." in name or not space else f"{space}.{name}"
            self._names[full] = {**schema, "name": full, "namespace": space}
            if kind in ("record", "error"):
                fields = [{**each, "type": self._inlined(each["type"], space, depth + 1)} for each in schema["fields"]]
                return {**schema, "type": "record", "name": full, "fields": fields}
        return schema


_COMPLEX: Final = ("record", "error", "enum", "fixed", "array", "map")


def _countable(items: Schema) -> Schema:
    """The type of an array's elements, of which a value cannot hold more than it has bytes. Raises OperatorError for another."""
    if not _has_bytes_at_all(items):
        raise OperatorError("the Avro schema has arrays of what takes no bytes: a short value could hold any number")
    return items


def _has_bytes_at_all(schema: Schema) -> bool:
    """Whether every value of the type takes a byte or more; a union has at least the number of its type."""
    if isinstance(schema, list):
        return True
    if schema["type"] == "record":
        return any(_has_bytes_at_all(each["type"]) for each in schema["fields"])
    return bool(schema["type"] != "null" and (schema["type"] != "fixed" or schema["size"] > 0))


def _union(schema: Sequence[Schema]) -> tuple[list[Schema], bool]:
    """The types of a union but null, and whether null is one."""
    members = [each for each in schema if each["type"] != "null"]
    return members, len(members) < len(schema)


def _arrow(schema: Schema) -> pa.DataType:
    if isinstance(schema, list):
        return _arrow_of_union(schema)
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        return pa.struct([_field(each) for each in schema["fields"]])
    if kind == "array":
        return pa.list_(pa.field("element", _arrow(schema["items"])))
    if kind == "map":
        return pa.map_(pa.string(), _arrow(schema["values"]))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        if 0 < precision <= _DECIMAL_DIGITS and 0 <= scale <= precision:
            return pa.decimal128(precision, scale)
    named = {"fixed": pa.binary(), "enum": pa.string()}
    return _TIMES.get((kind, logical)) or named.get(kind) or _PRIMITIVE[kind]


def _arrow_of_union(schema: Sequence[Schema]) -> pa.DataType:
    """One type and null is that type; several are a struct of members, as Spark's `from_avro` has them."""
    members, _ = _union(schema)
    if not members:
        return pa.null()
    if len(members) == 1:
        return _arrow(members[0])
    names = {each["type"] for each in members if not each.get("logicalType")}
    if len(members) == 2 and names == {"int", "long"}:
        return pa.int64()
    if len(members) == 2 and names == {"float", "double"}:
        return pa.float64()
    return pa.struct([pa.field(f"member{at}", _arrow(each)) for at, each in enumerate(members)])


def _field(field: Mapping[str, Any]) -> pa.Field:
    """The column, with what a reader's schema says for values in which it is missing."""
    metadata = {DEFAULT: json.dumps(_plain_default(field))} if "default" in field else {REQUIRED: "true"}
    if field.get("aliases"):
        metadata[ALIASES] = json.dumps(field["aliases"])
    return pa.field(field["name"], _arrow(field["type"]), metadata=metadata)


def _plain_default(field: Mapping[str, Any]) -> Any:
    """The default; of a union of several types it is one of the first."""
    kind, default = field["type"], field["default"]
    if isinstance(kind, list):
        is_struct = pa.types.is_struct(_arrow(kind)) and len(_union(kind)[0]) > 1
        if is_struct and default is not None:
            return {"member0": default}
        kind = kind[0]
    if default is not None and kind.get("logicalType", "").endswith("timestamp-millis"):
        return default * 1000
    return default


def _is_compiled(schema: Schema) -> bool:
    """Whether the compiled decoder has all the types of the schema."""
    if isinstance(schema, list):
        members, has_null = _union(schema)
        return has_null and len(members) == 1 and len(schema) == 2 and _is_compiled(members[0])
    kind = schema["type"]
    if kind == "record":
        return bool(schema["fields"]) and all(_is_compiled(each["type"]) for each in schema["fields"])
    if kind in ("array", "map"):
        return _is_compiled(schema["items" if kind == "array" else "values"])
    return kind == "enum" or (kind in _PRIMITIVE and kind != "null")


def _encoded_alike(schema: Schema, kept: Sequence[str]) -> Schema:
    """A schema with the same bytes: only the logical types of `kept` stay, and every name is used once."""
    counter = iter(range(1 << 30))

    def alike(each: Schema) -> Schema:
        if isinstance(each, list):
            return [alike(member) for member in each]
        kind, logical = each["type"], each.get("logicalType")
        found: dict[str, Any] = {"type": kind}
        if logical in kept:
            found |= {"logicalType": logical, **{name: each[name] for name in ("precision", "scale") if name in each}}
        elif logical in ("local-timestamp-millis", "local-timestamp-micros"):
            found["logicalType"] = logical.removeprefix("local-")
        if kind == "record":
            found["fields"] = [{"name": field["name"], "type": alike(field["type"])} for field in each["fields"]]
        for name in ("items", "values"):
            if name in each and kind in ("array", "map"):
                found[name] = alike(each[name])
        found |= {name: each[name] for name in ("symbols", "size") if name in each}
        if kind in ("record", "enum", "fixed"):
            found["name"] = f"n{next(counter)}"
        return found

    return alike(schema)


def _compiled(schema: Schema) -> Callable[[Sequence[bytes]], pa.Array]:
    from pyruhvro import deserialize_array

    if _has_bytes(schema) and not _takes_any_text():
        return _by_record(schema, _arrow(schema))
    text = json.dumps(_encoded_alike(schema, _COMPILED_TIMES)).replace('"type": "bytes"', '"type": "string"')

    def decode(values: Sequence[bytes]) -> pa.Array:
        found = deserialize_array(values, text).to_struct_array()
        if _has_bytes(schema):
            found = _restored(found, schema)
        found.validate(full=True)  # what is text must be UTF-8, and decimals must have their digits
        return found

    return decode


def _has_bytes(schema: Schema) -> bool:
    if isinstance(schema, list):
        return any(_has_bytes(each) for each in schema)
    inner = [schema[name] for name in ("items", "values") if isinstance(schema.get(name), dict | list)]
    inner += [each["type"] for each in schema["fields"]] if schema["type"] == "record" else []
    return schema["type"] == "bytes" or any(_has_bytes(each) for each in inner)


@cache
def _takes_any_text() -> bool:
    """Whether the compiled code still does not look at texts."""
    from pyruhvro import deserialize_array

    probe = json.dumps({"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]})
    try:
        found = deserialize_array([b"\x04\xff\xfe"], probe).column(0)
    except ValueError:
        return False
    return bool(found.view(pa.binary())[0].as_py() == b"\xff\xfe")


def _restored(array: pa.Array, schema: Schema) -> pa.Array:
    """The array with what are no texts in it as bytes and decimals."""
    if isinstance(schema, list):
        schema = _union(schema)[0][0]
    if not _has_bytes(schema):
        return array
    mask = array.is_null() if array.null_count else None
    if schema["type"] == "record":
        parts = {each["name"]: _restored(array.field(each["name"]), each["type"]) for each in schema["fields"]}
        return pa.StructArray.from_arrays(list(parts.values()), names=list(parts), mask=mask)
    if schema["type"] == "array":
        return pa.ListArray.from_arrays(array.offsets, _restored(array.values, schema["items"]), mask=mask)
    if schema["type"] == "map":
        items = _restored(array.items, schema["values"])
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=mask)
    raw = array.view(pa.binary())
    kind = _arrow(schema)
    return _decimals(raw, kind) if pa.types.is_decimal(kind) else raw


def _decimals(raw: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Two's complements of any length, largest byte first, as decimals. Raises ValueError for one that is too long."""
    if not len(raw):
        return pa.nulls(0, kind)
    offsets = np.frombuffer(raw.buffers()[1], dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    if longest > _DECIMAL_BYTES:
        raise ValueError(f"a decimal has {longest} bytes")
    found = np.zeros((len(raw), _DECIMAL_BYTES), dtype=np.uint8)
    if longest:
        data = np.frombuffer(raw.buffers()[2], dtype=np.uint8)
        is_negative = (lengths > 0) & (data[np.minimum(offsets[:-1], len(data) - 1)] >= _SIGN)
        found[is_negative] = 0xFF
        for place in range(longest):
            has = np.flatnonzero(lengths > place)
            found[has, place] = data[offsets[1:][has] - 1 - place]
    whole = pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(found)])
    return pc.if_else(raw.is_valid(), whole, pa.scalar(None, kind)) if raw.null_count else whole


def _by_record(schema: Schema, kind: pa.DataType) -> Callable[[Sequence[bytes]], pa.Array]:
    import fastavro

    try:
        parsed = fastavro.parse_schema(_encoded_alike(schema, _RECORD_TIMES))
    except fastavro.schema.SchemaParseException as error:
        raise ValueError(error) from None
    convert = _converter(parsed)
    read = fastavro.schemaless_reader

    def decode(values: Sequence[bytes]) -> pa.Array:
        try:
            rows = [
                read(io.BytesIO(each), parsed, None, return_record_name=True, return_record_name_override=True)
                for each in values
            ]
        except (EOFError, IndexError, KeyError, TypeError, OverflowError, ArithmeticError) as error:
            raise ValueError(str(error) or type(error).__name__) from None
        return pa.array(rows if convert is None else [convert(each) for each in rows], kind)

    return decode


def _converter(schema: Schema) -> Callable[[Any], Any] | None:
    """What makes of fastavro's value what pyarrow takes for the type; None where they are the same."""
    if isinstance(schema, list):
        return _union_converter(schema)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        parts = [(each["name"], _converter(each["type"])) for each in schema["fields"]]
        changed = [(name, part) for name, part in parts if part is not None]
        if not changed:
            return None
        return lambda value: value | {name: convert(value[name]) for name, convert in changed}
    if kind == "array":
        part = _converter(schema["items"])
        return None if part is None else lambda value: [part(each) for each in value]
    if kind == "map":
        item = _converter(schema["values"])
        if item is None:
            return lambda value: list(value.items())
        return lambda value: [(name, item(each)) for name, each in value.items()]
    return None


def _union_converter(schema: Sequence[Schema]) -> Callable[[Any], Any] | None:
    members = [each for each in schema if _kind_of(each) != "null"]
    parts = [_converter(each) for each in members]
    kinds = {_kind_of(each) for each in members if not (isinstance(each, dict) and "logicalType" in each)}
    if len(members) < 2 or (len(members) == 2 and kinds in ({"int", "long"}, {"float", "double"})):
        part = parts[0] if parts else None
        return None if part is None else lambda value: None if value is None else part(value)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        name, plain = value if isinstance(value, tuple) else (None, value)
        at = next((at for at, each in enumerate(members) if _is_member(each, plain, name)), None)
        if at is None:
            raise ValueError(f"{str(plain)[:50]} is no value of its type in a union")
        part = parts[at]
        return {f"member{at}": plain if part is None else part(plain)}

    return convert


def _kind_of(schema: Schema) -> str:
    kind: str = schema if isinstance(schema, str) else schema["type"]
    return kind


_PYTHON: Final = {
    "boolean": "bool", "int": "int", "long": "int", "float": "float", "double": "float", "bytes": "bytes",
    "string": "str", "enum": "str", "fixed": "bytes", "array": "list", "map": "dict", "record": "dict",
}  # fmt: skip
_PYTHON_LOGICAL: Final = {"date": "date", "decimal": "Decimal"}


def _is_member(schema: Schema, value: Any, name: str | None) -> bool:
    kind = _kind_of(schema)
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    wanted = "datetime" if "timestamp" in logical else _PYTHON_LOGICAL.get(logical, _PYTHON[kind])
    if type(value).__name__ != wanted:
        return False
    if name is not None:
        return bool(kind == "record" and schema["name"] == name)
    if kind == "enum":
        return bool(value in schema["symbols"])
    if kind == "fixed" and not logical:
        return bool(len(value) == schema["size"])
    return not (kind == "int" and not logical and not -(1 << 31) <= value < 1 << 31)
