"""Are values whose schemas a real schema registry has read as columns, and where do those go that do not fit?

The source's own code reads them from a node, in this process: what Spark's workers run, without Spark. Serializers are Confluent's.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from headrace.arrow.read import read_table
from headrace.arrow.registry import Registry, registry_of
from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError
from headrace.records.record import NewRecord, build_batch
from headrace.spark.offset_ranges import InputRange
from headrace.spark.row_reader import read_range
from headrace.spark.source import HeadraceDataSource
from headrace.testing import Node
from tests.peers.registry import SchemaRegistry, schema_registry

pytestmark = pytest.mark.java


class Topics:
    """A node's topics, each with one partition, read as the source's tasks do."""

    def __init__(self, client: BlockingClient, servers: str, url: str) -> None:
        self._client = client
        self._servers = servers
        self._url = url
        self._ends: dict[str, int] = {}

    def make(self, name: str, *values: bytes, partitions: int = 1) -> str:
        """A topic with these values, each with a key and a header."""
        self._client.run(admin_topics.create_topics, [admin_topics.NewTopic(name=name, partitions=partitions)])
        self._ends[name] = 0
        self.add(name, *values)
        return name

    def add(self, name: str, *values: bytes) -> None:
        records = [NewRecord(key=b"k", value=each, timestamp=1000, headers=(("h", b"v"),)) for each in values]
        if records:
            self._client.produce_raw(name, 0, build_batch(records))
        self._ends[name] += len(values)

    def read(self, topic: str, value_format: str, **options: str) -> tuple[str, list[Any]]:
        """The type of the values as Spark names it, and the values; the source goes to the task as Spark sends it."""
        given = {"kafka.bootstrap.servers": self._servers, "subscribe": topic, "valueFormat": value_format}
        source = HeadraceDataSource({**given, "schema.registry.url": self._url, **options})
        kind = source.schema()["value"].dataType.simpleString()
        planned = pickle.loads(pickle.dumps(source))._read_options(is_stream=False)
        self.columns = options.get("rescuedColumn")
        rows: list[Any] = []
        for batch in read_range(planned, InputRange(topic=topic, partition=0, start=0, end=self._ends[topic])):
            names = ["value"] if self.columns is None else ["value", self.columns]
            rows += [
                each["value"] if self.columns is None else tuple(each.values())
                for each in batch.select(names).to_pylist()
            ]
        return kind, rows


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def topics(registry: SchemaRegistry) -> Iterator[Topics]:
    with Node() as node, BlockingClient(node.bootstrap_servers) as client:
        yield Topics(client, node.bootstrap_servers, registry.url)
    registry_of((("url", registry.url),)).close()


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


OLD = record({"name": "id", "type": "int"}, {"name": "who", "type": "string"})
NEW = record(
    {"name": "id", "type": "long"},
    {"name": "who", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
)


def serialized(registry: SchemaRegistry, topic: str, schema: str, *rows: dict[str, Any]) -> list[bytes]:
    """Values as Confluent's serializer makes them; it registers the schema."""
    with registry.client() as client:
        serializer = AvroSerializer(client, schema)
        return [serializer(each, SerializationContext(topic, MessageField.VALUE)) for each in rows]


def test_avro_rows_are_those_of_the_latest_schema(topics: Topics, registry: SchemaRegistry) -> None:
    """Values of an older and a newer schema in one topic: columns of the latest, fields that came by their defaults; or of a version, or as told."""
    topic = topics.make("versions", *serialized(registry, "versions", OLD, {"id": 1, "who": "a"}))
    topics.add(topic, *serialized(registry, topic, NEW, {"id": 1 << 40, "who": None, "tags": []}))
    rows = [{"id": 1, "who": "a", "tags": ["none"]}, {"id": 1 << 40, "who": None, "tags": []}]
    assert topics.read(topic, "avro") == ("struct<id:bigint,who:string,tags:array<string>>", rows)
    told = topics.read(topic, "avro", valueSchema="who string, gone double")
    assert told == ("struct<who:string,gone:double>", [{"who": "a", "gone": None}, {"who": None, "gone": None}])
    with pytest.raises(OperatorError, match=r"versions-0 offset 1: schema \d+: value\.id was written as int64"):
        topics.read(topic, "avro", valueSubjectVersion="1")


def test_avros_logical_types(topics: Topics, registry: SchemaRegistry) -> None:
    """Names and types of the columns are those of Spark's `from_avro`."""
    schema = record(
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "stock", "type": {"type": "map", "values": "long"}},
        {"name": "either", "type": ["null", "int", "string"]},
    )
    row = {"price": Decimal("1.25"), "at": 1_000, "day": 1, "kind": "B", "stock": {"k": 1}, "either": "x"}
    topic = topics.make("logical", *serialized(registry, "logical", schema, row))
    kind, rows = topics.read(topic, "avro")
    assert kind == (
        "struct<price:decimal(9,2),at:timestamp,day:date,kind:string,stock:map<string,bigint>,"
        "either:struct<member0:int,member1:string>>"
    )
    assert rows == [
        {
            "price": Decimal("1.25"), "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "day": date(1970, 1, 2), "kind": "B",
            "stock": [("k", 1)], "either": {"member0": None, "member1": "x"},
        }
    ]  # fmt: skip


def test_protobuf_rows(topics: Topics, registry: SchemaRegistry) -> None:
    """What Confluent's serializer for Python wrote (it registers descriptors), and a file registered as text that imports another."""
    with registry.client() as client:
        serializer = ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False})
        value = serializer(Timestamp(seconds=5), SerializationContext("moments", MessageField.VALUE))
    found = topics.read(topics.make("moments", value), "protobuf")
    assert found == ("struct<seconds:bigint,nanos:int>", [{"seconds": 5, "nanos": 0}])
    registry.register("inner", 'syntax = "proto3"; package p; message Inner { double x = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; package p; import "inner.proto"; message M { uint64 n = 1; repeated Inner parts = 2; }'
    number = registry.register("parts-value", text, "PROTOBUF", [("inner.proto", "inner")])
    value = b"\0" + struct.pack(">i", number) + b"\0\x08\x07\x12\x09\x09" + struct.pack("<d", 0.5)
    found = topics.read(topics.make("parts", value), "protobuf")
    assert found == (
        "struct<n:decimal(20,0),parts:array<struct<x:double>>>",
        [{"n": Decimal(7), "parts": [{"x": 0.5}]}],
    )


def test_json_rows_with_a_schemas_id(topics: Topics, registry: SchemaRegistry) -> None:
    """JSON Schema's wire format."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    head = b"\0" + struct.pack(">i", registry.register("documents-value", json.dumps(schema), "JSON"))
    found = topics.read(topics.make("documents", head + b'{"id": 1, "name": "a"}', head + b"{}"), "json")
    assert found == ("struct<id:bigint,name:string>", [{"id": 1, "name": "a"}, {"id": None, "name": None}])


def test_values_that_do_not_fit_are_dead_letters_or_rescued_or_an_error(
    topics: Topics, registry: SchemaRegistry
) -> None:
    """Each is in the dead-letter topic as it came, with Kafka Connect's headers of place and reason behind its own, and no row; a second read sends it again."""
    good = serialized(registry, "mixed", OLD, {"id": 1, "who": "a"})[0]
    bad = [b"bad", good[:-1], b"\0\0\0\xff\xff" + good[5:]]
    topic, dead = topics.make("mixed", good, *bad), topics.make("dead", partitions=2)
    row = {"id": 1, "who": "a"}
    assert topics.read(topic, "avro", deadLetterTopic=dead)[1] == [row]
    letters = read_table(topics._servers, dead, columns=["key", "value", "headers"]).to_pylist()
    assert [(each["key"], each["value"]) for each in letters] == [(b"k", each) for each in bad]
    reasons = ("does not begin with a zero byte", "cannot be decoded", "has no schema 65535")
    for offset, (letter, reason) in enumerate(zip(letters, reasons, strict=True), start=1):
        told = {each["key"]: each["value"].decode() for each in letter["headers"]}
        assert reason in told.pop("__connect.errors.exception.message")
        assert told == {
            "h": "v", "__connect.errors.topic": topic, "__connect.errors.partition": "0",
            "__connect.errors.offset": str(offset), "__connect.errors.stage": "VALUE_CONVERTER",
        }  # fmt: skip
    kept = topics.read(topic, "avro", deadLetterTopic=dead, rescuedColumn="_r")[1]
    assert kept == [(row, None), *((None, each) for each in bad)]
    assert read_table(topics._servers, dead).num_rows == 2 * len(bad)
    with pytest.raises(OperatorError, match="mixed-0 offset 1: the value does not begin with a zero byte"):
        topics.read(topic, "avro")


def test_a_registry_that_does_not_answer_is_an_error_of_its_own(topics: Topics, registry: SchemaRegistry) -> None:
    """Its silence is no bad value: one line that names it, and not the password in its address."""
    topics.make("alone", b"\0\0\0\0\1")
    with pytest.raises(OperatorError, match="has no subject alone-value: say valueSubject"):
        topics.read("alone", "avro")
    with closing(Registry({"url": registry.url, "max.retries": "1"})) as asked:
        assert asked.by_id(99_999) is None
    silent = {"url": "http://al:hush@127.0.0.1:1/x", "max.retries": "0"}
    with (
        closing(Registry(silent)) as asked,
        pytest.raises(OperatorError, match=r"http://127\.0\.0\.1:1/x gave no schema 1: ConnectError") as caught,
    ):
        asked.by_id(1)
    assert "hush" not in str(caught.value)
    for wrong in ({"strange": "x"}, {"cache.capacity": "many"}):
        with pytest.raises(OperatorError, match=r"schema\.registry options are wrong"):
            Registry({"url": registry.url, **wrong})
