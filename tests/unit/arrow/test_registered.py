"""Are values in Confluent's wire format read by the schema that wrote each, and is every bad one told with the reason?"""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headrace.arrow.fitting import plain
from headrace.arrow.protobuf import ProtobufSchema
from headrace.arrow.registered import RegisteredDecoder, schema_columns
from headrace.arrow.registry import RegisteredSchema
from headrace.arrow.value_rows import RowDecoder, ValueColumns
from headrace.arrow.value_schema import parse_value_schema
from headrace.arrow.values import decode_values
from headrace.core.errors import OperatorError

CONTEXT = SerializationContext("t", MessageField.VALUE)
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "inner.proto";
enum Color { RED = 0; GREEN = 1; }
message Order {
  message Line { string what = 1; uint32 count = 2; }
  int64 id = 1; string name = 2; double price = 3; bool paid = 4; optional int32 rebate = 5;
  repeated int32 numbers = 6; repeated Line lines = 7; Inner inner = 8; map<string, sint64> stock = 9;
  Color color = 10; google.protobuf.Timestamp at = 11; bytes raw = 12; uint64 large = 13; fixed32 f = 14;
  oneof pay { string card = 15; int64 cash = 16; }
}
message Refund { int64 id = 1; }
"""
INNER = 'syntax = "proto3"; package shop; message Inner { float x = 1; repeated string tags = 2; }'


class Known:
    """Schemas by their ids."""

    def __init__(self, **schemas: RegisteredSchema) -> None:
        self.schemas = {int(name.removeprefix("s")): each for name, each in schemas.items()}
        self.asked: list[int] = []

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        return self.schemas.get(schema_id)


def avro(*fields: tuple[str, Any]) -> RegisteredSchema:
    parts = [{"name": name, "type": kind} for name, kind in fields]
    return RegisteredSchema(kind="AVRO", text=json.dumps({"type": "record", "name": "R", "fields": parts}))


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + struct.pack(">i", schema_id) + data


def avro_value(schema_id: int, schema: RegisteredSchema, row: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(schema.text)), row)
    return framed(schema_id, buffer.getvalue())


def decoder(known: Known, value_format: str, want: str | pa.DataType) -> RegisteredDecoder:
    kind = pa.struct(list(parse_value_schema(want))) if isinstance(want, str) else want

    def json_rows(values: pa.Array) -> Any:
        found = decode_values(values, pa.schema(list(plain(kind))), value_format="json")
        return found.rows, found.is_bad.to_numpy(zero_copy_only=False)

    return RegisteredDecoder(known, value_format, kind, json_rows)


def test_each_value_is_read_by_the_schema_that_wrote_it() -> None:
    """Confluent's wire format: rows of several schemas mixed keep their order; nulls stay; each schema is asked for once."""
    old, new = avro(("n", "int")), avro(("n", "long"), ("s", ["null", "string"]))
    known = Known(s7=old, s8=new)
    values = [
        avro_value(7, old, {"n": each}) if each % 3 else avro_value(8, new, {"n": each, "s": "x"}) for each in range(10)
    ]
    values[4] = None  # type: ignore[call-overload]
    reader = decoder(known, "avro", "n bigint, s string")
    for column in (pa.array(values, pa.binary()), pa.array([b"before", *values], pa.binary()).slice(1)):
        found = reader.decode(column)
        expected = [None if each == 4 else {"n": each, "s": None if each % 3 else "x"} for each in range(10)]
        assert (found.rows.to_pylist(), found.problems) == (expected, {})
    assert known.asked == [7, 8]


def test_every_bad_value_says_why_and_moves_no_other() -> None:
    """A value that is no such record is null and has its reason; its neighbours are what they are alone."""
    good, other = avro(("n", "int"), ("s", "string")), avro(("n", "string"))
    known = Known(
        s1=good, s2=other, s3=RegisteredSchema(kind="JSON", text="{}"), s4=RegisteredSchema(kind="AVRO", text='"int"')
    )
    fine = avro_value(1, good, {"n": 5, "s": "x"})
    bad = {
        b"": "zero byte", b"\0\0\0\0": "zero byte", b"\1" + fine[1:]: "zero byte", framed(9, b""): "has no schema 9",
        avro_value(2, other, {"n": "x"}): "value.n was written as string", framed(3, b"{}"): "schema 3 is of type JSON",
        framed(4, b"\2"): "no record", fine[:-1]: "cannot be decoded", framed(1, b""): "cannot be decoded",
    }  # fmt: skip
    values = [part for each in bad for part in (fine, each)]
    found = decoder(known, "avro", "n bigint, s string").decode(pa.array(values, pa.binary()))
    assert found.rows.to_pylist() == [{"n": 5, "s": "x"}, None] * len(bad)
    assert sorted(found.problems) == list(range(1, len(values), 2))
    for at, reason in enumerate(bad.values()):
        assert reason in found.problems[2 * at + 1]


def test_values_that_name_very_many_schemas_have_the_registry_asked_for_some() -> None:
    """Each unknown id was a request to the registry: 11 ms for ten bytes of a producer. What many values name is asked for first, and no id is negative."""
    good = avro(("n", "int"))
    known = Known(s1000=good)
    strange = [framed(number, b"") for number in range(5_000) if number != 1_000]
    values = [*strange, framed(-1, b""), *[avro_value(1_000, good, {"n": 5})] * 2]
    found = decoder(known, "avro", "n int").decode(pa.array(values, pa.binary()))
    assert found.rows.to_pylist() == [None] * 5_000 + [{"n": 5}] * 2
    assert len(known.asked) == 257
    assert known.asked[0] == 1_000
    assert found.problems[0] == "the schema registry has no schema 0"
    assert found.problems[4_998] == "the schema registry was not asked for schema 4999: it lacks too many others"
    assert found.problems[4_999] == "the schema registry was not asked for schema 4294967295: that is no id"
    assert len(found.problems) == 5_000


def test_a_flood_of_unknown_ids_spoils_no_schema_that_comes_later() -> None:
    """What one batch names was counted for all batches of a task: values of a schema first met behind a flood were taken for bad."""
    good, later = avro(("n", "int")), avro(("n", "int"), ("s", "string"))
    known = Known(s1=good, s2=later)
    reader = decoder(known, "avro", "n int")
    reader.decode(pa.array([framed(number, b"") for number in range(10, 5_000)], pa.binary()))
    strange = [framed(number, b"") for number in range(5_000, 6_000)]
    fine = [*[avro_value(1, good, {"n": 5})] * 2, *[avro_value(2, later, {"n": 6, "s": "x"})] * 3]
    found = reader.decode(pa.array([*strange, *fine], pa.binary()))
    assert found.rows.to_pylist() == [None] * 1_000 + [{"n": 5}] * 2 + [{"n": 6}] * 3
    assert len(known.asked) == 256 + 8, "and it costs few requests a batch"


def test_nothing_but_bad_values_and_no_values() -> None:
    """The struct's type is there all the same."""
    reader = decoder(Known(), "avro", "n bigint")
    for values in ([], [None], [b"x"]):
        found = reader.decode(pa.array(values, pa.binary()))
        assert found.rows.type == pa.struct([("n", pa.int64())])
        assert found.rows.to_pylist() == [None] * len(values)


@pytest.fixture(scope="module")
def proto() -> RegisteredSchema:
    return RegisteredSchema(kind="PROTOBUF", text=PROTO, references=(("inner.proto", INNER),))


@pytest.fixture(scope="module")
def messages(proto: RegisteredSchema) -> Any:
    """The classes of another maker, Google's own runtime, for the same file."""
    schema = ProtobufSchema(proto.text, dict(proto.references))
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(file: Any) -> None:
        for each in file.dependencies:
            add(each)
        if file.name not in added:
            described = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(described)
            pool.Add(described)
            added.add(file.name)

    add(schema._file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
        for name in ("Order", "Refund", "Order.Line")
    }


def full_order(messages: Any) -> Any:
    order = messages["Order"](
        id=-1,
        name="é",
        price=1.5,
        paid=True,
        rebate=0,
        numbers=[1, -2],
        color=1,
        raw=b"\xff",
        large=(1 << 64) - 1,
        f=7,
        cash=3,
    )
    order.lines.add(what="a", count=(1 << 32) - 1)
    order.inner.x = 0.5
    order.inner.tags.append("t")
    order.stock["k"] = -4
    order.at.FromDatetime(dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC))
    return order


EMPTY = {
    "id": 0, "name": "", "price": 0.0, "paid": False, "rebate": None, "numbers": [], "lines": [], "inner": None, "stock": [],
    "color": "RED", "at": None, "raw": b"", "large": 0, "f": 0, "card": None, "cash": None,
}  # fmt: skip
FULL = {
    "id": -1, "name": "é", "price": 1.5, "paid": True, "rebate": 0, "numbers": [1, -2], "lines": [{"what": "a", "count": (1 << 32) - 1}],
    "inner": {"x": 0.5, "tags": ["t"]}, "stock": [("k", -4)], "color": "GREEN", "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC),
    "raw": b"\xff", "large": (1 << 64) - 1, "f": 7, "card": None, "cash": 3,
}  # fmt: skip


def test_protobuf_messages_are_columns(proto: RegisteredSchema, messages: Any) -> None:
    """proto3: scalars, optional, oneof, repeated, nested, enum, map, imports and the Timestamp that everybody knows; unsigned as Spark can have them."""
    reader = decoder(Known(s5=proto), "protobuf", schema_columns(proto, "protobuf"))
    values = [
        framed(5, b"\0" + each)
        for each in (messages["Order"]().SerializeToString(), full_order(messages).SerializeToString())
    ]
    found = reader.decode(pa.array(values, pa.binary()))
    assert found.problems == {}
    assert found.rows.to_pylist() == [EMPTY, FULL]
    assert found.rows.type.field("large").type == pa.decimal128(20, 0)
    assert found.rows.type.field("f").type == pa.int64()


def test_message_indexes_choose_the_message(proto: RegisteredSchema, messages: Any) -> None:
    """Confluent's wire format: a count and zigzag indexes, one zero byte for the first message; columns come by name."""
    line, refund = messages["Order.Line"](what="w", count=2), messages["Refund"](id=9)
    values = [
        framed(5, b"\0" + messages["Order"](id=1).SerializeToString()),
        framed(5, b"\x02\x02" + refund.SerializeToString()),
        framed(5, b"\x04\x00\x00" + line.SerializeToString()),
        framed(5, b"\x02\x00" + messages["Order"](id=4).SerializeToString()),
        framed(5, b"\x02\x08" + refund.SerializeToString()),
        framed(5, b"\x03"), framed(5, b""), framed(5, b"\x02"), framed(5, b"\xff\xff\xff\xff\xff\xff\x01"), framed(5, b"\0\x08"),
    ]  # fmt: skip
    found = decoder(Known(s5=proto), "protobuf", "id bigint, what string").decode(pa.array(values, pa.binary()))
    rows = [(1, None), (9, None), (None, "w"), (4, None), *[None] * 6]
    assert found.rows.to_pylist() == [each and {"id": each[0], "what": each[1]} for each in rows]
    assert [found.problems[each].partition(" [")[0] for each in range(4, 9)] == [
        "the Protobuf schema has no message", *["the value does not say which message of its schema it is"] * 4
    ]  # fmt: skip
    assert "cannot be decoded" in found.problems[9]


def test_a_serialized_descriptor_is_a_schema_too(proto: RegisteredSchema, messages: Any) -> None:
    """What Python's serializer registers: the file's descriptor in base64, and those that it imports."""
    import base64

    file = messages["Order"].DESCRIPTOR.file
    texts = {each.name: base64.b64encode(each.serialized_pb).decode() for each in (file, *file.dependencies)}
    schema = ProtobufSchema(texts[file.name], {"inner.proto": texts["inner.proto"]})
    assert schema.message_type() == ProtobufSchema(proto.text, dict(proto.references)).message_type()
    with pytest.raises(OperatorError, match=r"imports inner\.proto"):
        ProtobufSchema(texts[file.name])


@pytest.mark.parametrize(
    ("text", "references", "reason"),
    [
        ("message {", {}, "cannot be compiled"),
        (PROTO, {}, r"inner\.proto"),
        (PROTO, {"../outside.proto": INNER}, "no name of a file"),
        ('syntax = "proto3";', {}, "has no message"),
    ],
)
def test_a_protobuf_schema_that_cannot_be_is_refused(text: str, references: dict[str, str], reason: str) -> None:
    """B78: one line; nothing is written outside of a directory of ours."""
    with pytest.raises(OperatorError, match=reason) as caught:
        ProtobufSchema(text, references).message_type()
    assert "\n" not in str(caught.value)


def test_json_values_with_a_schemas_id() -> None:
    """JSON Schema: the id is taken off; the columns are those of the schema, or of `valueSchema`."""
    text = json.dumps(
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"}, "name": {"type": ["string", "null"]}, "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
                "tags": {"type": "array", "items": {"type": "string"}}, "at": {"$ref": "#/definitions/place"},
            },
            "definitions": {"place": {"properties": {"x": {"type": "number"}}}},
        }
    )  # fmt: skip
    schema = RegisteredSchema(kind="JSON", text=text)
    columns = schema_columns(schema, "json")
    assert columns == pa.struct(
        list(parse_value_schema("id bigint, name string, price double, tags array<string>, at struct<x:double>"))
    )
    values = [
        framed(3, b'{"id": 1, "at": {"x": 2}}'),
        framed(3, b"{"),
        b'{"id": 1}',
        framed(3, b'{"name": "n", "tags": ["a"]}'),
    ]
    found = decoder(Known(s3=schema), "json", columns).decode(pa.array(values, pa.binary()))
    none = dict.fromkeys(("id", "name", "price", "tags", "at"))
    assert found.rows.to_pylist() == [
        none | {"id": 1, "at": {"x": 2.0}},
        None,
        None,
        none | {"name": "n", "tags": ["a"]},
    ]
    assert sorted(found.problems) == [1, 2]


@pytest.mark.parametrize(
    "text",
    ["{", '{"type": "string"}', '{"type": ["string", "integer"]}', '{"properties": {"a": {"$ref": "#"}}}', '{"properties": {"a": {"$ref": "x.json"}}}',
     '{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}', '{"properties": {"a": {"type": "object"}}}', '{"type": "thing"}', "[]"],
)  # fmt: skip
def test_a_json_schema_without_columns_asks_for_them(text: str) -> None:
    """B78: one line with the remedy."""
    with pytest.raises(OperatorError, match="valueSchema") as caught:
        schema_columns(RegisteredSchema(kind="JSON", text=text), "json")
    assert "\n" not in str(caught.value)


def test_a_subject_of_another_type_is_told() -> None:
    """The format is the user's word, the type the registry's."""
    with pytest.raises(OperatorError, match="valueFormat=protobuf, and the registered schema is of type AVRO"):
        schema_columns(avro(("n", "int")), "protobuf")


def test_what_does_not_fit_is_handed_on_and_left_out() -> None:
    """With a report, rows that do not fit go there as they came and are no rows; a rescued column keeps them."""
    rows = pa.record_batch(
        {"value": pa.array([b'{"n":1}', b"{", None, b"["], pa.binary()), "offset": pa.array([5, 6, 7, 8])}
    )
    told: list[tuple[Any, list[str]]] = []
    columns = ValueColumns(value_format="json", schema=parse_value_schema("n int"))
    kept = RowDecoder(columns, report=lambda bad, why: told.append((bad.to_pylist(), why))).decode(rows)
    assert kept.to_pylist() == [{"value": {"n": 1}, "offset": 5}, {"value": None, "offset": 7}]
    reason = "the value is no json of the schema ['n']"
    assert told == [([{"value": b"{", "offset": 6}, {"value": b"[", "offset": 8}], [reason, reason])]
    columns = ValueColumns(value_format="json", schema=parse_value_schema("n int"), rescued_column="r")
    kept = RowDecoder(columns, report=lambda _bad, why: told.append((None, why))).decode(rows)
    assert kept.column("r").to_pylist() == [None, b"{", None, b"["]
    assert len(told) == 2
