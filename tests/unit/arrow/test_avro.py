"""Are Avro's values the columns that its specification says, by both decoders, and can each be read as a newer schema?"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import uuid
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.arrow.avro import AvroSchema
from headrace.arrow.fitting import fit, misfit, readable
from headrace.core.errors import OperatorError

UTC = dt.UTC
BESIDE = {"type": "fixed", "name": "Beside", "size": 1}
"""A column that the compiled decoder does not have."""
LOCAL = dt.datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None)
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "float"}]}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record", "name": "R", "namespace": "a.b", "fields": [{"name": name, "type": kind} for name, kind in fields]
    }  # fmt: skip


def written(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    """The bytes that another maker's encoder writes."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), row)
    return buffer.getvalue()


def read(schema: dict[str, Any], *rows: dict[str, Any]) -> list[Any]:
    avro = AvroSchema(json.dumps(schema))
    found = avro.decode([written(schema, row) for row in rows])
    assert misfit(found.type, readable(avro.type)) is None
    return [dict(each) for each in fit(found, readable(avro.type)).to_pylist()]


CASES: list[tuple[Any, list[Any], list[Any], pa.DataType]] = [
    ("boolean", [True, False], [True, False], pa.bool_()),
    ("int", [-(1 << 31), 7], [-(1 << 31), 7], pa.int32()),
    ("long", [-(1 << 63), (1 << 63) - 1], [-(1 << 63), (1 << 63) - 1], pa.int64()),
    ("float", [1.5], [1.5], pa.float32()),
    ("double", [-0.1], [-0.1], pa.float64()),
    ("string", ["", "é"], ["", "é"], pa.string()),
    ("bytes", [b"", b"\xff"], [b"", b"\xff"], pa.binary()),
    ("null", [None], [None], pa.string()),
    ({"type": "fixed", "name": "F", "size": 3}, [b"abc"], [b"abc"], pa.binary()),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["B", "A"], ["B", "A"], pa.string()),
    ({"type": "array", "items": "int"}, [[], [1, 2]], [[], [1, 2]], pa.list_(pa.field("element", pa.int32()))),
    ({"type": "map", "values": "long"}, [{}, {"k": 1}], [[], [("k", 1)]], pa.map_(pa.string(), pa.int64())),
    ({"type": "map", "values": "bytes"}, [{"k": b"\1"}], [[("k", b"\1")]], pa.map_(pa.string(), pa.binary())),
    (POINT, [{"x": 1.0}], [{"x": 1.0}], pa.struct([("x", pa.float32())])),
    (["null", POINT], [None, {"x": 1.0}], [None, {"x": 1.0}], pa.struct([("x", pa.float32())])),
    (["null", "int"], [None, 5], [None, 5], pa.int32()),
    (["string", "null"], [None, "x"], [None, "x"], pa.string()),
    (["int"], [5], [5], pa.int32()),
    (["int", "long"], [5, 1 << 40], [5, 1 << 40], pa.int64()),
    (
        ["null", "string", "int", POINT, {**POINT, "name": "Other"}],
        ["x", 5, None, ("a.b.Other", {"x": 2.0})],
        [
            {"member0": "x", "member1": None, "member2": None, "member3": None},
            {"member0": None, "member1": 5, "member2": None, "member3": None},
            None,
            {"member0": None, "member1": None, "member2": None, "member3": {"x": 2.0}},
        ],
        pa.struct([("member0", pa.string()), ("member1", pa.int32()), *[(f"member{each}", pa.struct([("x", pa.float32())])) for each in (2, 3)]]),
    ),
    ({"type": "int", "logicalType": "date"}, [dt.date(1969, 12, 31)], [dt.date(1969, 12, 31)], pa.date32()),
    ({"type": "int", "logicalType": "time-millis"}, [5], [5], pa.int32()),
    ({"type": "long", "logicalType": "time-micros"}, [5], [5], pa.int64()),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        [dt.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)],
        [dt.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)],
        pa.timestamp("us", tz="UTC"),
    ),
    (
        ["null", {"type": "long", "logicalType": "timestamp-micros"}],
        [dt.datetime(1960, 1, 2, 3, 4, 5, 678901, UTC), None],
        [dt.datetime(1960, 1, 2, 3, 4, 5, 678901, UTC), None],
        pa.timestamp("us", tz="UTC"),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        [LOCAL],
        [LOCAL],
        pa.timestamp("us"),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        [Decimal("-12.34")],
        [Decimal("-12.34")],
        pa.decimal128(10, 2),
    ),
    (
        ["null", {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 2}],
        [Decimal("12.34"), None],
        [Decimal("12.34"), None],
        pa.decimal128(10, 2),
    ),
    ({"type": "string", "logicalType": "uuid"}, [str(uuid.UUID(int=5))], [str(uuid.UUID(int=5))], pa.string()),
    ({"type": "int", "logicalType": "of-nobody"}, [5], [5], pa.int32()),
]  # fmt: skip


@pytest.mark.parametrize("beside", [(), (("beside", BESIDE),)], ids=["compiled", "by record"])
@pytest.mark.parametrize(("kind", "rows", "expected", "arrow"), CASES)
def test_each_type_is_its_column(
    kind: Any, rows: list[Any], expected: list[Any], arrow: pa.DataType, beside: tuple[tuple[str, Any], ...]
) -> None:
    """Avro 1.12, primitive, complex and logical types; the columns are those of Spark's `from_avro`, whichever decoder made them."""
    schema = record(("c", kind), *beside)
    plain = {"time-millis", "time-micros"}
    if isinstance(kind, dict) and kind.get("logicalType") in plain:
        schema_written = record(("c", kind["type"]), *beside)
    else:
        schema_written = schema
    more = {name: b"\0" for name, _ in beside}
    avro = AvroSchema(json.dumps(schema))
    found = fit(avro.decode([written(schema_written, {"c": row} | more) for row in rows]), readable(avro.type))
    assert [each["c"] for each in found.to_pylist()] == expected
    assert found.type.field("c").type == arrow


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "raw": st.binary(max_size=5),
                "money": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda each: Decimal(each).scaleb(-4, Context(40))),
                "more": st.lists(st.fixed_dictionaries({"b": st.none() | st.binary(max_size=3)}), max_size=3),
                "named": st.none() | st.dictionaries(st.text(max_size=2), st.binary(max_size=2), max_size=2),
            }
        ),
        min_size=1,
        max_size=5,
    )
)
def test_bytes_and_decimals_are_compiled_too(rows: list[dict[str, Any]]) -> None:
    """What is no text comes out as it went in, wherever it stands: bytes that are no UTF-8, numbers of 38 digits with either sign."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": ["null", "bytes"]}]}
    schema = record(
        ("raw", "bytes"), ("money", MONEY), ("more", {"type": "array", "items": inner}), ("named", ["null", {"type": "map", "values": "bytes"}])
    )  # fmt: skip
    expected = [{**row, "named": row["named"] and list(row["named"].items())} for row in rows]
    found = read(schema, *rows)
    assert [{**row, "named": row["named"] or None} for row in found] == [
        {**row, "named": row["named"] or None} for row in expected
    ]


@pytest.mark.parametrize("data", [b"\x22" + b"\x01" * 17, b"\x20" + b"\x7f" * 16, b"\x04\x01"])
def test_b29_a_decimal_that_is_too_large_is_a_value_error(data: bytes) -> None:
    """B29: more bytes or digits than the type has, or cut off."""
    with pytest.raises((ValueError, pa.ArrowException)):
        AvroSchema(json.dumps(record(("d", MONEY)))).decode([data])


def test_names_are_found_by_their_namespace_and_in_referred_schemas() -> None:
    """Avro 1.12, Names: a name within a namespace, a full name, a schema of another subject."""
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    schema = record(("a", inner), ("b", ["null", "a.b.In"]), ("c", "In"))
    row = {"a": {"x": 1}, "b": None, "c": {"x": 3}}
    assert read(schema, row) == [row]
    outside = {"type": "record", "name": "Out", "namespace": "o", "fields": [{"name": "e", "type": "o.E"}]}
    kinds = {"type": "enum", "name": "E", "namespace": "o", "symbols": ["A"]}
    avro = AvroSchema(json.dumps(record(("out", "o.Out"))), [json.dumps(kinds), json.dumps(outside)])
    assert avro.decode([b"\0"]).to_pylist() == [{"out": {"e": "A"}}]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('"string"', "no record"),
        ("{", "not understood"),
        ('{"type": "record"}', "not understood"),
        ('{"type": "nothing"}', "not understood"),
        (json.dumps(record(("c", "unheard.of"))), "not understood"),
        (json.dumps(record(("v", "int"), ("next", ["null", "R"]))), "holds itself"),
    ],
)
def test_a_schema_that_has_no_columns_is_refused(schema: str, reason: str) -> None:
    """B78: one line that says why."""
    with pytest.raises(OperatorError, match=reason) as caught:
        AvroSchema(schema)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("beside", [(), (("beside", BESIDE),)], ids=["compiled", "by record"])
@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\x02\x02", b"\x02\xff\xff\xff\xff\x0f", b"\x80" * 12, b"\x02\x02\xff\x00"]
)
def test_b29_bytes_that_are_no_such_value_are_a_value_error(beside: tuple[tuple[str, Any], ...], data: bytes) -> None:
    """B29: truncated, too long, no UTF-8: one kind of error."""
    avro = AvroSchema(json.dumps(record(("n", "long"), ("s", "string"), *beside)))
    with pytest.raises((ValueError, pa.ArrowException)):
        avro.decode([data])


ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "name": st.none() | st.text(max_size=20),
        "xs": st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=4),
        "m": st.dictionaries(st.text(max_size=3), st.none() | st.booleans(), max_size=3),
        "p": st.none() | st.fixed_dictionaries({"x": st.floats(width=32, allow_nan=False)}),
    }
)
ROW_SCHEMA = record(
    ("id", "long"), ("name", ["null", "string"]), ("xs", {"type": "array", "items": "int"}),
    ("m", {"type": "map", "values": ["null", "boolean"]}), ("p", ["null", POINT]),
)  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_both_decoders_read_what_another_maker_wrote(rows: list[dict[str, Any]]) -> None:
    """The same rows from compiled code and record by record, for generated rows."""
    expected = [{**row, "m": list(row["m"].items())} for row in rows]
    assert read(ROW_SCHEMA, *rows) == expected
    with_fixed = {**ROW_SCHEMA, "fields": [*ROW_SCHEMA["fields"], {"name": "b", "type": BESIDE}]}
    assert read(with_fixed, *({**row, "b": b"\xff"} for row in rows)) == [{**row, "b": b"\xff"} for row in expected]


def resolved(writer: dict[str, Any], reader: dict[str, Any], row: dict[str, Any]) -> Any:
    found, want = AvroSchema(json.dumps(writer)), AvroSchema(json.dumps(reader)).type
    assert misfit(found.type, want) is None
    return fit(found.decode([written(writer, row)]), want).to_pylist()[0]


def test_a_writers_values_are_resolved_to_the_readers_schema() -> None:
    """Avro 1.12, Schema Resolution: promotions, fields that went and came, defaults, aliases, nested; as fastavro resolves them."""
    writer = record(
        ("i", "int"), ("f", "float"), ("l", "long"), ("s", "string"), ("old", "int"), ("gone", "string"),
        ("p", POINT), ("a", {"type": "array", "items": "Point"}),
    )  # fmt: skip
    point = {**POINT, "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "int", "default": 3}]}
    reader = record(
        ("i", "long"), ("f", "double"), ("l", "float"), ("s", "bytes"),
        ("p", point), ("a", {"type": "array", "items": "Point"}),
    )  # fmt: skip
    reader["fields"] += [
        {"name": "new", "type": "int", "aliases": ["older", "old"]},
        {"name": "none", "type": ["null", "string"], "default": None},
        {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1]},
        {"name": "map", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1},
        {"name": "z", "type": {**point, "name": "Z"}, "default": {"x": 1.5}},
    ]
    row = {"i": 1, "f": 1.5, "l": 2, "s": "é", "old": 4, "gone": "x", "p": {"x": 1.0}, "a": [{"x": 2.0}]}
    assert resolved(writer, reader, row) == {
        "i": 1, "f": 1.5, "l": 2.0, "s": "é".encode(), "p": {"x": 1.0, "y": 3}, "a": [{"x": 2.0, "y": 3}], "new": 4,
        "none": None, "list": [1], "map": [("k", 1)], "raw": b"\xff", "day": dt.date(1970, 1, 2),
        "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC), "z": {"x": 1.5, "y": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        ("string", "int", "value.c was written as string and cannot be read as int32"),
        ("long", "int", "cannot be read as int32"),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, r"value.c\[\] was written as string"),
        ({"type": "map", "values": "string"}, {"type": "map", "values": "int"}, r"value.c \(value\)"),
        (POINT, {**POINT, "fields": [{"name": "y", "type": "int"}]}, "value.c.y was not written and has no default"),
    ],
)
def test_what_cannot_be_resolved_says_which_field(writer: Any, reader: Any, reason: str) -> None:
    """Avro 1.12, Schema Resolution: an error; ours names the place and both types."""
    problem = misfit(
        AvroSchema(json.dumps(record(("c", writer)))).type, AvroSchema(json.dumps(record(("c", reader)))).type
    )
    assert problem is not None
    assert re.search(reason, problem)
