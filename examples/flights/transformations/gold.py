"""What the table `delays` gets goes into a topic too."""

import json
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
settings = json.loads((Path(__file__).parents[1] / "settings.json").read_text())

dp.create_sink(
    "delays_topic", "headrace", {"kafka.bootstrap.servers": settings["servers"], "topic": settings["delays_topic"]}
)


@dp.append_flow(target="delays_topic")
def to_topic() -> DataFrame:
    return spark.readStream.table("delays").selectExpr("carrier AS key", "to_json(struct(*)) AS value")
