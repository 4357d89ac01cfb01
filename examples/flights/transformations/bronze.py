"""Bronze: the reports as they are in the topic, each record once."""

import json
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
settings = json.loads((Path(__file__).parents[1] / "settings.json").read_text())


@dp.table(comment="the records of the topic, as text")
def reports() -> DataFrame:
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("subscribe", settings["reports_topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings["reports_per_batch"])
        .load()
    )
    return records.select(F.col("value").cast("string").alias("report"), "partition", "offset", "timestamp")


@dp.temporary_view
def airlines() -> DataFrame:
    return spark.read.parquet(f"{settings['tables']}/airlines.parquet")


@dp.temporary_view
def weather() -> DataFrame:
    return spark.read.parquet(f"{settings['tables']}/weather.parquet")
