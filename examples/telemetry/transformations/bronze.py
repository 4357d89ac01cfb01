"""Bronze: what the cluster decided, and what collect.py saw."""

import json
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
settings = json.loads((Path(__file__).parents[1] / "settings.json").read_text())


@dp.table(comment="the cluster's metadata log, record by record")
def decisions() -> DataFrame:
    return spark.readStream.format("headrace_metadata").option("kafka.bootstrap.servers", settings["servers"]).load()


def seen(topic: str, schema: str) -> DataFrame:
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("valueSchema", schema)
        .load()
    )
    return records.selectExpr("value.*", "timestamp", "partition AS topic_partition", "offset")


@dp.table(comment="samples of the nodes' metrics")
def metrics() -> DataFrame:
    return seen("telemetry-metrics", "node STRING, metric STRING, labels STRING, value DOUBLE")


@dp.table(comment="how far consumer groups had come")
def lags() -> DataFrame:
    return seen("telemetry-lags", "group STRING, topic STRING, partition INT, committed BIGINT, end BIGINT")
