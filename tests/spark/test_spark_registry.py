"""What does Spark see of values whose schemas a real schema registry has, and where do values go that do not fit?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.peers.registry import SchemaRegistry, schema_registry
from tests.spark.conftest import Topics, run_stream, with_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]
Load = Callable[..., "DataFrame"]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


OLD = record({"name": "id", "type": "int"}, {"name": "who", "type": "string"})


def serialized(registry: SchemaRegistry, topic: str, schema: str, *rows: dict[str, Any]) -> list[bytes]:
    """Values as Confluent's serializer makes them; it registers the schema."""
    with registry.client() as client:
        serializer = AvroSerializer(client, schema)
        return [serializer(each, SerializationContext(topic, MessageField.VALUE)) for each in rows]


def test_spark_takes_all_types(load: Load, topics: Topics, registry: SchemaRegistry) -> None:
    """Decimals, times, dates, maps and unions, as Spark's `from_avro` has them; nothing fails on the way into Spark's rows."""
    schema = record(
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "stock", "type": {"type": "map", "values": "long"}},
        {"name": "either", "type": ["null", "int", "string"]},
    )
    topic = topics.make()
    row = {"price": Decimal("1.25"), "at": 1_000, "day": 1, "kind": "B", "stock": {"k": 1}, "either": "x"}
    topics.fill(topic, serialized(registry, topic, schema, row))
    found = load(subscribe=topic, valueFormat="avro", **{"schema.registry.url": registry.url})
    assert found.schema["value"].dataType.simpleString() == (
        "struct<price:decimal(9,2),at:timestamp,day:date,kind:string,stock:map<string,bigint>,"
        "either:struct<member0:int,member1:string>>"
    )
    texts = found.selectExpr("to_json(value)").collect()
    assert json.loads(texts[0][0]) == {
        "price": 1.25, "at": "1970-01-01T00:00:01.000Z", "day": "1970-01-02", "kind": "B", "stock": {"k": 1},
        "either": {"member1": "x"},
    }  # fmt: skip


def test_bad_values_go_to_the_dead_letter_topic(
    spark: SparkSession, load: Load, topics: Topics, registry: SchemaRegistry, tmp_path: Path
) -> None:
    """They are no rows; the topic has each as it came, with Kafka Connect's headers of place and reason behind its own; nothing is lost in a stream either."""
    topic, dead, target = topics.make(), topics.make(), topics.make()
    good = serialized(registry, topic, OLD, {"id": 1, "who": "a"})[0]
    topics.fill(topic, [good, b"bad", good[:-1], b"\0\0\0\xff\xff" + good[5:]])
    asked = {
        "subscribe": topic, "valueFormat": "avro", "schema.registry.url": registry.url, "startingOffsets": "earliest",
        "deadLetterTopic": dead,
    }  # fmt: skip
    stream = with_options(spark.readStream, topics.servers, asked).load().selectExpr("value.who AS value")
    run_stream(stream, lambda writer: with_options(writer, topics.servers, {"topic": target}).start(), tmp_path)
    assert [bytes(each.value) for each in load(subscribe=target).collect()] == [b"a"]
    letters = load(subscribe=dead, includeHeaders="true").orderBy("offset").collect()
    assert [bytes(each.value) for each in letters] == [b"bad", good[:-1], b"\0\0\0\xff\xff" + good[5:]]
    told = [{header.key: bytes(header.value).decode() for header in each.headers} for each in letters]
    places = [
        (each["__connect.errors.topic"], each["__connect.errors.partition"], each["__connect.errors.offset"])
        for each in told
    ]
    assert places == [(topic, "0", str(each)) for each in (1, 2, 3)]
    reasons = ("does not begin with a zero byte", "cannot be decoded", "has no schema 65535")
    for reason, each in zip(reasons, told, strict=True):
        assert reason in each["__connect.errors.exception.message"]
    del asked["deadLetterTopic"]
    kept = load(**asked, rescuedColumn="_r").orderBy("offset").select("value.who", "_r").collect()
    assert [(each.who, each._r and bytes(each._r)) for each in kept][:2] == [("a", None), (None, b"bad")]
    with pytest.raises(Exception, match=f"{topic}-0 offset 1: the value does not begin with a zero byte"):
        load(**asked).collect()
