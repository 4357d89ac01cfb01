"""What does Spark see of values that the source decodes?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import Topics, run_stream, with_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Load = Callable[..., "DataFrame"]

SCHEMA = "id bigint, name string, at timestamp, price decimal(8,2), tags array<string>, place struct<x:double,y:double>"
FIT = [
    '{"id": 1, "name": "é", "at": "2026-01-02T03:04:05.678Z", "price": 12.50, "tags": ["a", null], "place": {"x": 1.5}}',
    '{"name": null, "other": {"deep": [1]}, "tags": []}',
    "{}",
]


def test_json_values_are_the_rows_of_from_json(load: Load, topics: Topics) -> None:
    """Schema and rows are those of `from_json` over the bytes; the schema may be what `simpleString` says."""
    from pyspark.sql.functions import from_json

    topic = topics.make(2)
    for partition in range(2):
        topics.fill(topic, FIT * 100, partition=partition)
    plain = load(subscribe=topic)
    expected = plain.select("partition", "offset", from_json(plain["value"].cast("string"), SCHEMA).alias("value"))
    kind = expected.schema["value"].dataType.simpleString()
    for schema in (SCHEMA, kind):
        found = load(subscribe=topic, valueFormat="json", valueSchema=schema)
        assert found.schema["value"].dataType.simpleString() == kind
        order = ["partition", "offset"]
        assert found.select(*order, "value").orderBy(*order).collect() == expected.orderBy(*order).collect()


@pytest.mark.each_pyspark
def test_what_does_not_fit_is_rescued_or_ends_the_query(load: Load, topics: Topics) -> None:
    """The column has the bytes of bad records only, behind the headers; without it the error names the first."""
    topic = topics.make()
    topics.fill(topic, ["1,one", "two,2", "3,three"])
    asked = {"subscribe": topic, "valueFormat": "CSV", "valueSchema": "n int, word string", "includeHeaders": "true"}
    found = load(**asked, rescuedColumn="_rescued")
    assert found.columns[-2:] == ["headers", "_rescued"]
    rows = found.orderBy("offset").select("value.*", "_rescued").collect()
    assert [tuple(each) for each in rows] == [(1, "one", None), (None, None, bytearray(b"two,2")), (3, "three", None)]
    with pytest.raises(Exception, match=f"{topic}-0 offset 1: the value is no csv"):
        load(**asked).collect()


def test_a_stream_decodes_too(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """The same options, the same rows."""
    topic = topics.make()
    topics.fill(topic, ['{"n": 1}', "{", '{"n": 3}'])
    options = {"startingOffsets": "earliest", "valueFormat": "json", "valueSchema": "n int", "rescuedColumn": "bad"}
    rows = with_options(spark.readStream, topics.servers, {"subscribe": topic, **options}).load()
    kept: list[tuple[int | None, bool]] = []

    def keep(batch: DataFrame, _number: int) -> None:
        chosen = batch.orderBy("offset").selectExpr("value.n AS n", "bad IS NULL AS fits").collect()
        kept.extend((each["n"], each["fits"]) for each in chosen)

    run_stream(rows, lambda writer: writer.foreachBatch(keep).start(), tmp_path / "checkpoint")
    assert kept == [(1, True), (None, False), (3, True)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"valueFormat": "xml", "valueSchema": "a int"}, "valueFormat=xml: must be json, csv, avro or protobuf"),
        ({"valueFormat": "json", "valueSchema": "a map<string,int>"}, "only avro and protobuf have maps"),
        ({"valueFormat": "json"}, "needs valueSchema"),
    ],
)
def test_options_that_cannot_be_are_told_at_load(load: Load, options: dict[str, str], said: str) -> None:
    """Before anything is read."""
    with pytest.raises(Exception, match=said):
        load(subscribe="any", **options)
