"""Is the metadata log a table and a stream to Spark, each record once, over restarts too?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import Topics, run_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.each_pyspark]


def test_decisions_are_rows_of_a_table_and_of_a_stream(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """The topics that were made, in their order; a restart goes on behind what was read; what is wrong is told with its remedy."""
    servers = {"kafka.bootstrap.servers": topics.servers}
    first = [topics.make(), topics.make()]
    table = spark.read.format("headrace_metadata").options(**servers).load()
    made = table.where("type = 'TOPIC_RECORD'").orderBy("offset").selectExpr("get_json_object(data, '$.name') AS name")
    assert [row["name"] for row in made.collect()][-2:] == first
    seen: list[tuple[int, str]] = []

    def keep(rows: DataFrame, _number: int) -> None:
        seen.extend(
            (row["offset"], json.loads(row["data"])["name"]) for row in rows.where("type = 'TOPIC_RECORD'").collect()
        )

    stream = spark.readStream.format("headrace_metadata").options(**servers).load()
    run_stream(stream, lambda writer: writer.foreachBatch(keep).start(), tmp_path)
    last = topics.make()
    run_stream(stream, lambda writer: writer.foreachBatch(keep).start(), tmp_path)
    assert [name for _, name in seen][-3:] == [*first, last]
    assert len({offset for offset, _ in seen}) == len(seen)
    for options, said in (
        ({"subscribe": "orders"}, r"there is no option subscribe: this source has kafka\.\* and startingOffsets"),
        ({"startingOffsets": "17"}, "startingOffsets=17: must be earliest or latest"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("headrace_metadata").options(**servers, **options).load().collect()
