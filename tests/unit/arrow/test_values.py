"""Which columns come out of values that are JSON or CSV, and is each value that does not fit seen, and no other?"""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.arrow.schema import ROWS_SCHEMA
from headrace.arrow.value_rows import RowDecoder, ValueColumns
from headrace.arrow.value_schema import parse_value_schema
from headrace.arrow.values import decode_values
from headrace.core.errors import OperatorError

NARROW = "a bigint, s string"
PIECES = (
    '{"a":1}', '{"s":"x"}', '{"a":', '{"a":"1"}', '{"a":1.5}', '{"s":2}', '{"a":null,"s":null}', '{"z":[1,{"a":null}]}',
    "{", "}", "[", "]", '"', ",", ":", "null", "1", "-1", "true", '"a"', '"s"', " ", "\n", "\t", "\r\n", "\\", "{}", "[]",
    '"null}null"', "//", '{"a":1,"a":2}', '{"a":9223372036854775808}', "\ufeff", "é",
)  # fmt: skip
"""What valid and broken documents are put together of."""


def decoded(values: list[bytes | None], schema: str, value_format: str) -> list[Any]:
    """Each value's row, `bad` for one that does not fit."""
    found = decode_values(pa.array(values, type=pa.binary()), parse_value_schema(schema), value_format=value_format)
    found.rows.validate(full=True)
    pairs = zip(found.rows.to_pylist(), found.is_bad.to_pylist(), strict=True)
    return ["bad" if is_bad and row is None else row for row, is_bad in pairs]


def plain(value: bytes) -> Any:
    """The slow, plain twin: one JSON document at a time, for the schema NARROW."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs if name in ("a", "s")]
        if len(set(names)) != len(names):
            raise ValueError("twice")
        return dict(pairs)

    try:
        found = json.loads(value.decode("utf-8"), object_pairs_hook=once)
    except ValueError:
        return "bad"
    if found is None:
        return None
    if not isinstance(found, dict):
        return "bad"
    number, text = found.get("a"), found.get("s")
    is_number = number is None or (type(number) is int and -(1 << 63) <= number < 1 << 63)
    return {"a": number, "s": text} if is_number and (text is None or isinstance(text, str)) else "bad"


@pytest.mark.parametrize("seed", range(6))
def test_json_is_what_a_plain_reader_makes_of_each_value_alone(seed: int) -> None:
    """Documents cut short, doubled, reaching into the next one or hiding a row: none shifts, hides or changes a neighbour."""
    chance = random.Random(seed)
    values = ["".join(chance.choices(PIECES, k=chance.choice((1, 1, 1, 2, 2, 3, 5)))).encode() for _ in range(150)]
    assert decoded(list(values), NARROW, "json") == [plain(each) for each in values]


@pytest.mark.parametrize("seed", range(6))
def test_values_that_look_like_objects_hide_nothing_from_each_other(seed: int) -> None:
    """Only values with a brace at both ends, which are read without marks: two objects in one, open strings, zero bytes, a null within."""
    chance = random.Random(seed)
    inner = [
        "",
        '"a":1',
        '"s":"x"',
        '"s":"',
        "}{",
        "} {",
        "}\n{",
        "}null{",
        "},{",
        '"a":{}',
        '"a":[{}',
        "\0",
        "}\0{",
        ":",
        ",",
        "}",
        "{",
        '"',
    ]
    whole = ["{}", '{"a":2}', '{"s":"y"}'] * 6
    values = [
        chance.choice(whole)
        if chance.random() < 0.6
        else "{" + "".join(chance.choices(inner, k=chance.choice((1, 2, 3)))) + "}"
        for _ in range(200)
    ]
    for size in (2, 3, 7, 200):
        for start in range(0, len(values), size):
            some = [each.encode() for each in values[start : start + size]]
            assert decoded(list(some), NARROW, "json") == [plain(each) for each in some]


def test_json_has_all_types() -> None:
    """Numbers, decimals, truth, text, times (UTC without a zone), arrays, structs; missing is null and unknown is left out."""
    schema = "i int, n decimal(6,2), f double, b boolean, t timestamp, l array<struct<x:int>>, `a b` string"
    value = b'{"i":-3,"n":12.5,"f":1,"b":true,"t":"2026-01-02 03:04:05","l":[{"x":1},null,{"y":2}],"a b":"\\u00e9","no":{"i":[]}}'
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    row = {
        "i": -3,
        "n": Decimal("12.50"),
        "f": 1.0,
        "b": True,
        "t": moment,
        "l": [{"x": 1}, None, {"x": None}],
        "a b": "é",
    }
    assert decoded([value, b"{}"], schema, "json") == [row, dict.fromkeys(row)]
    for wrong in (b'{"i":2147483648}', b'{"n":1.555}', b'{"b":1}', b'{"t":5}', b'{"l":[1]}', b'{"l":{}}', b'{"f":"1"}'):
        assert decoded([wrong], schema, "json") == ["bad"]


def test_a_null_value_is_null_and_a_bad_one_is_bad_wherever_they_stand() -> None:
    """Null values are no rows of a reader; JSON's null is a null row; empty, `[]` and broken UTF-8 do not fit."""
    values = [None, b"null", b'{"a":1}', b"", b"[]", None, b"\xff", b'{"a":2} null', b'{"a":3}']
    expected = [None, None, {"a": 1, "s": None}, "bad", "bad", None, "bad", "bad", {"a": 3, "s": None}]
    assert decoded(list(values), NARROW, "json") == expected
    assert decoded([None], NARROW, "json") == [None]
    assert decoded([], NARROW, "csv") == []


def test_csv_rows_are_values() -> None:
    """Quotes, line ends in and behind a value; too few, too many, wrong fields, open quotes and two lines in one value are bad."""
    cases: dict[bytes | None, Any] = {
        b"1,x": {"a": 1, "s": "x"},
        b'2,"a\nb, ""c"""\r\n': {"a": 2, "s": 'a\nb, "c"'},
        None: None,
        b'3,""': {"a": 3, "s": ""},
        b",": {"a": None, "s": None},
        b"x,y": "bad",
        b'4,"q': "bad",
        b"5": "bad",
        b"6,a,b": "bad",
        b"7,x\n8,y": "bad",
        b"9,\xff": "bad",
        b"10,z": {"a": 10, "s": "z"},
    }
    assert decoded(list(cases), NARROW, "csv") == list(cases.values())
    assert decoded([b"2026-01-02,2026-01-02T03:00:00+02:00"], "d date, t timestamp", "csv") == [
        {"d": date(2026, 1, 2), "t": datetime(2026, 1, 2, 1, tzinfo=UTC)}
    ]
    assert decoded([b'"a', b"b"], "s string", "csv") == ["bad", {"s": "b"}]


def test_what_does_not_fit_is_kept_or_an_error_that_names_its_place() -> None:
    """The rescued column has the bytes as they came; without one the first bad record is named."""
    rows = pa.RecordBatch.from_pylist(
        [
            {"key": b"k", "value": value, "topic": "t", "partition": 3, "offset": offset}
            for offset, value in ((7, b'{"a":1}'), (9, b"oops"), (10, None))
        ],
        schema=ROWS_SCHEMA,
    )
    schema = parse_value_schema("a int")
    kept = RowDecoder(ValueColumns(value_format="json", schema=schema, rescued_column="rescued")).decode(rows)
    assert kept.column("value").to_pylist() == [{"a": 1}, None, None]
    assert kept.column("rescued").to_pylist() == [None, b"oops", None]
    assert kept.column("offset").to_pylist() == [7, 9, 10]
    with pytest.raises(OperatorError, match=r"t-3 offset 9: the value is no json .*; name a rescuedColumn"):
        RowDecoder(ValueColumns(value_format="json", schema=schema)).decode(rows)


def test_schemas_are_read_as_spark_writes_them() -> None:
    """Names with colons or without, in backquotes, in any case; a struct around all is left out."""
    found = parse_value_schema("struct<a:bigint,B: DECIMAL(6,2), `x y` array<struct<z:double>>, d decimal>")
    item = pa.field("element", pa.struct([("z", pa.float64())]))
    wanted = [("a", pa.int64()), ("B", pa.decimal128(6, 2)), ("x y", pa.list_(item)), ("d", pa.decimal128(10, 0))]
    assert found == pa.schema(wanted)
    assert parse_value_schema("struct int") == pa.schema([("struct", pa.int32())])


@pytest.mark.parametrize(
    ("schema", "value_format", "message"),
    [
        ("", "json", "is not understood at its end"),
        ("a", "json", "is not understood at its end"),
        ("a int,", "json", "is not understood at its end"),
        ("a int b", "json", "is not understood at 'b'"),
        ("a map<string,int>", "json", "only avro and protobuf have maps"),
        ("a array<int", "json", "is not understood at its end"),
        ("a int; b int", "json", "is not understood at '; b int'"),
        ("a int, A string", "json", "has A twice"),
        ("a decimal(39,1)", "json", "decimal\\(39,1\\)"),
        ("a " + "array<" * 30 + "int" + ">" * 30, "json", "nested deeper than"),
        ("a date", "json", "json has no date"),
        ("a array<int>", "csv", "csv has no arrays"),
        ("a int", "yaml", "must be json or csv"),
    ],
)
def test_schemas_that_cannot_be_are_refused(schema: str, value_format: str, message: str) -> None:
    """One line that names what is wrong."""
    with pytest.raises(OperatorError, match=message):
        decode_values(pa.nulls(1, pa.binary()), parse_value_schema(schema), value_format=value_format)
