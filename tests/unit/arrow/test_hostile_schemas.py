"""Does a schema, or a value of it, that was registered to do harm cost its own values only? Who may produce to a topic may often register schemas too."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.arrow.avro import AvroSchema
from headrace.arrow.json_schema import json_schema_type
from headrace.arrow.protobuf import ProtobufSchema
from headrace.arrow.registered import RegisteredDecoder
from headrace.arrow.registry import RegisteredSchema
from headrace.core.errors import OperatorError

PROTO = 'syntax = "proto3"; message A { int32 a = 1; }'
NESTED = 14
"""So many names, each of which names the one before it twice, are 2^14 columns in a schema of a few lines."""


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}


def doubled(depth: int) -> dict[str, Any]:
    if not depth:
        return record(("a", "int"), name="R0")
    return record(("a", doubled(depth - 1)), ("b", f"R{depth - 1}"), name=f"R{depth}")


def long(value: int) -> bytes:
    """A number as Avro writes it."""
    raw, found = value << 1, bytearray()
    while raw > 0x7F:
        found.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*found, raw])


def test_files_that_a_protobuf_schema_imports_are_no_code_that_runs(tmp_path: Path) -> None:
    """The compiler is a module of Python: a file of its name beside the schema must not be taken for it."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n"
    named = ("grpc_tools/__init__.py", "grpc_tools/protoc.py", "google/__init__.py", "runpy.py", "pkgutil.py")
    found = ProtobufSchema(PROTO, dict.fromkeys(named, code)).message_type()
    assert (found.names, ran.exists()) == (["a"], False)


@pytest.mark.parametrize(
    "names",
    [
        ("a", "a/b.proto"), ("headrace_value.proto/b",), ("",), ("/etc/b.proto",), ("a//b",), ("a/./b",), ("../b",), ("a\0b",),
        ("x" * 256,), ("a/" * 600 + "b",), ("a\\b",),
    ],
    ids=lambda names: names[-1][:20],
)  # fmt: skip
def test_names_that_cannot_be_files_are_refused(names: tuple[str, ...]) -> None:
    """Not an error of the file system, which would end the query."""
    with pytest.raises(OperatorError, match="no name of a file"):
        ProtobufSchema(PROTO, dict.fromkeys(names, PROTO))


def test_serialized_files_that_import_each_other_are_refused() -> None:
    """Recursion without end."""
    texts = {
        name: base64.b64encode(FileDescriptorProto(name=name, dependency=[other]).SerializeToString()).decode()
        for name, other in (("a.proto", "b.proto"), ("b.proto", "a.proto"))
    }
    with pytest.raises(OperatorError, match="imports itself"):
        ProtobufSchema(texts["a.proto"], texts)


def test_a_schema_of_a_few_lines_has_no_thousands_of_columns() -> None:
    """Each use of a name is columns of its own, so names in names are two to the power of their number."""
    proto = 'syntax = "proto3"; message A0 { int32 a = 1; }'
    for at in range(1, NESTED + 1):
        proto += f" message A{at} {{ A{at - 1} a = 1; A{at - 1} b = 2; }}"
    with pytest.raises(OperatorError, match="more than 10000 types"):
        ProtobufSchema(proto).message_type((NESTED,))
    with pytest.raises(OperatorError, match="more than 10000 types"):
        AvroSchema(json.dumps(doubled(NESTED)))
    defined: dict[str, Any] = {"d0": {"type": "integer"}}
    for at in range(1, NESTED + 1):
        inner = {"$ref": f"#/d/d{at - 1}"}
        defined[f"d{at}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    with pytest.raises(OperatorError, match="more than 10000 types"):
        json_schema_type(json.dumps({"$ref": f"#/d/d{NESTED}", "d": defined}))


@pytest.mark.parametrize(
    "items",
    ["null", record(name="E"), record(("n", "null"), name="E"), {"type": "fixed", "size": 0, "name": "F"}],
    ids=["null", "nothing", "nulls", "fixed"],
)
def test_arrays_of_what_takes_no_bytes_are_refused(items: Any) -> None:
    """A value of ten bytes could say that it holds 2^60 of them, and each is an object."""
    with pytest.raises(OperatorError, match="takes no bytes"):
        AvroSchema(json.dumps(record(("a", {"type": "array", "items": items}))))


@pytest.mark.parametrize("items", ["boolean", ["null"], record(("n", "null"), ("b", "boolean"), name="E")])
def test_b29_arrays_that_claim_more_than_the_value_has_are_a_value_error(items: Any) -> None:
    """What takes a byte at least ends with the value."""
    avro = AvroSchema(json.dumps(record(("a", {"type": "array", "items": items}))))
    with pytest.raises((ValueError, pa.ArrowException)):
        avro.decode([long(1 << 60)])


POISON = [
    '{"type":' * 10_000,
    json.dumps(record(("d", {"type": "bytes", "logicalType": "decimal"}))),
    json.dumps(record(("d", {"type": "bytes", "logicalType": "decimal", "precision": "9"}))),
    json.dumps(record(("d", {"type": "int", "logicalType": ["date"]}))),
    json.dumps(record(("e", {"type": "enum", "name": "E", "symbols": ["\ud800"]}), ("u", ["int", "string"]))),
    json.dumps(record(("f", {"type": "fixed", "name": "F"}))),
    json.dumps(record(("\ud800", "int"))),
    json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": [], "default": 1}]}),
    json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": {"a": 1}}, 5]}),
]


@pytest.mark.parametrize("text", POISON, ids=range(len(POISON)))
def test_a_schema_that_cannot_be_read_is_the_reason_of_its_values_only(text: str) -> None:
    """One value with such a schema's id must not end the query."""

    class Known:
        def by_id(self, schema_id: int) -> RegisteredSchema | None:
            return RegisteredSchema(kind="AVRO", text=text if schema_id == 1 else json.dumps(record(("a", "int"))))

    def no_json(values: pa.Array) -> Any:
        raise AssertionError(values)

    reader = RegisteredDecoder(Known(), "avro", pa.struct([("a", pa.int64())]), no_json)
    values = [b"\0" + struct.pack(">i", schema_id) + b"\4" for schema_id in (2, 1, 2)]
    found = reader.decode(pa.array(values, pa.binary()))
    assert found.rows.to_pylist() == [{"a": 2}, None, {"a": 2}]
    assert list(found.problems) == [1]
    assert found.problems[1].startswith("schema 1: ")
    assert len(found.problems[1]) < 1_000


def test_a_json_schema_nested_without_end_is_refused() -> None:
    """It is not read beyond the stack of the reader."""
    with pytest.raises(OperatorError, match="not understood"):
        json_schema_type('{"a":' * 10_000)


def test_b29_a_number_too_large_for_its_type_in_a_union_is_a_value_error() -> None:
    """Nothing in the bytes forbids it."""
    avro = AvroSchema(json.dumps(record(("a", ["int", "string"]))))
    assert avro.decode([b"\0\4"]).to_pylist() == [{"a": {"member0": 2, "member1": None}}]
    with pytest.raises(ValueError, match="in a union"):
        avro.decode([b"\0" + long(1 << 40)])


@pytest.mark.parametrize("value_format", ["avro", "protobuf"])
def test_few_bytes_in_wide_columns_are_decoded_in_parts(value_format: str) -> None:
    """20,000 values of two bytes whose schema has 5,000 columns take a gigabyte at once, and are read for one of them."""
    inner = record(*[(f"f{at}", "long") for at in range(5_000)], name="I")
    text = json.dumps(record(("a", "int"), ("o", ["null", inner])))
    if value_format == "protobuf":
        fields = "".join(f"int64 f{at} = {at + 1};" for at in range(5_000))
        text = f'syntax = "proto3"; message R {{ int32 a = 1; I o = 2; }} message I {{ {fields} }}'
    schema = RegisteredSchema(kind=value_format.upper(), text=text)

    class Known:
        def by_id(self, _schema_id: int) -> RegisteredSchema | None:
            return schema

    def no_json(values: pa.Array) -> Any:
        raise AssertionError(values)

    reader = RegisteredDecoder(Known(), value_format, pa.struct([("a", pa.int64())]), no_json)
    head = b"\0" + struct.pack(">i", 1) + (b"\0\x08" if value_format == "protobuf" else b"")
    ends = [bytes([at]) if value_format == "protobuf" else long(at) + b"\0" for at in range(50)]
    values = pa.array([head + end for end in ends] * 400, pa.binary())
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before = memory("VmRSS")
    found = reader.decode(values)
    assert memory("VmHWM") - before < 300 << 20
    assert (found.rows.field("a").to_pylist(), found.problems) == ([*range(50)] * 400, {})


def memory(field: str) -> int:
    """Bytes of this process's memory: `VmRSS` now, `VmHWM` at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))
