"""Do source and sink log in to a secured Kafka in each way, on the driver and in tasks, without telling a secret?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import run_stream
from tests.support.secured_kafka import SECRETS, WAYS, SecuredKafka, secured_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as found:
        yield found


def options(secured: SecuredKafka, way: str, **changed: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in (secured.settings(way) | changed).items()}


@pytest.mark.parametrize("way", WAYS)
def test_source_and_sink_log_in(spark: SparkSession, secured: SecuredKafka, tmp_path: Path, way: str) -> None:
    """Rows are written, streamed to another topic and read, all of it with the settings of Kafka's clients."""
    where = options(secured, way)
    rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("headrace").options(**where).option("topic", f"{way}-in").mode("append").save()
    start = {"subscribe": f"{way}-in", "startingOffsets": "earliest"}
    stream = spark.readStream.format("headrace").options(**where, **start).load().select("value")
    run_stream(stream, lambda writer: writer.format("headrace").options(**where, topic=f"{way}-out").start(), tmp_path)
    found = spark.read.format("headrace").options(**where, subscribe=f"{way}-out").load()
    assert sorted(int(each.value) for each in found.select("value").collect()) == list(range(20))


def test_no_secret_is_told_when_a_login_fails(spark: SparkSession, secured: SecuredKafka, spark_log: Path) -> None:
    """The error of a query, with all of Spark's traces, and the log have no password, key or token."""
    wrong = secured.settings("scram-sha-512", password="wrong-hush")
    asked = {f"kafka.{name}": value for name, value in wrong.items()}
    with pytest.raises(Exception, match="uthentication") as read:
        spark.read.format("headrace").options(**asked, subscribe="t").load().collect()
    rows = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match="uthentication") as written:
        rows.write.format("headrace").options(**asked, topic="t").mode("append").save()
    where = options(secured, "mtls-text", **{"ssl.key.password": "wrong-hush"})
    with pytest.raises(Exception, match="cannot be used") as keyed:
        spark.read.format("headrace").options(**where, subscribe="t").load().collect()
    for told in (*(str(each.value) for each in (read, written, keyed)), spark_log.read_text(errors="replace")):
        assert "hush" not in told
        assert not any(each in told for each in SECRETS)


def test_sparks_plans_hide_the_options_that_the_guide_names(spark: SparkSession, secured: SecuredKafka) -> None:
    """`spark.sql.redaction.options.regex` as docs/spark.md says it."""
    guide = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    pattern = guide.partition("spark.sql.redaction.options.regex=")[2].partition("`")[0]
    spark.conf.set("spark.sql.redaction.options.regex", pattern)
    try:
        for way in ("plain", "mtls-text"):
            found = spark.read.format("headrace").options(**options(secured, way), subscribe="t").load()
            plan = found._jdf.queryExecution().toString()
            stream = spark.readStream.format("headrace").options(**options(secured, way), subscribe="t").load()
            plan += stream._jdf.queryExecution().toString()
            assert not any(each in plan for each in (*SECRETS, "PRIVATE KEY"))
    finally:
        spark.conf.unset("spark.sql.redaction.options.regex")
