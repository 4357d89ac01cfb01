"""Does a pipeline from a file deliver every row once, also when it is stopped and started again? And does the demo's account hold?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from headrace.spark.demo import run as demo
from headrace.spark.demo.account import CANCELLED, LATE
from headrace.spark.demo.plot import draw
from headrace.spark.pipeline.plan import make_plan
from headrace.spark.pipeline.runner import PipelineRunner
from headrace.spark.pipeline.sinks import parquet
from headrace.spark.pipeline.spec import parse_spec
from tests.spark.conftest import Topics, values, with_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILE = """
name = "orders"
[[topic]]
name = "raw"
schema = "id INT, item STRING"
options = { "kafka.bootstrap.servers" = "${servers}", subscribe = "${source}", startingOffsets = "earliest", maxOffsetsPerTrigger = 40 }
[[table]]
name = "items"
format = "json"
path = "${items}"
[[step]]
name = "priced"
sql = "SELECT id, item, price FROM raw JOIN items USING (item)"
[[sink]]
from = "priced"
kind = "parquet"
path = "${output}"
[[sink]]
from = "priced"
kind = "topic"
options = { "kafka.bootstrap.servers" = "${servers}", topic = "${target}" }
key = "item"
"""


@pytest.mark.each_pyspark
def test_a_pipeline_goes_on_from_its_checkpoint_without_loss_or_repeats(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """Three runs, one of them cut off after a sink had written: each row is in the table once, in the topic at least once."""
    source, target = topics.make(), topics.make()
    (tmp_path / "items.json").write_text('{"item": "tea", "price": 3}\n{"item": "jam", "price": 5}\n')
    parameters = {
        "servers": topics.servers, "source": source, "target": target,
        "items": str(tmp_path / "items.json"), "output": str(tmp_path / "orders"),
    }  # fmt: skip
    plan = make_plan(parse_spec(FILE, parameters))

    def more(first: int, end: int) -> None:
        topics.fill(source, [json.dumps({"id": each, "item": ("tea", "jam")[each % 2]}) for each in range(first, end)])

    def run() -> None:
        running = PipelineRunner(spark, plan, checkpoints=tmp_path / "checkpoints").start(available_now=True)
        running.wait()
        assert not running.is_running()

    more(0, 100)
    run()
    more(100, 130)
    last = parquet.batch_directory(str(tmp_path / "orders"), 3)
    unfinished = spark.createDataFrame([(-1, "tea", 3)], "id INT, item STRING, price LONG")
    unfinished.write.parquet(last)  # what a run leaves that dies after this sink and before Spark notes the batch
    run()
    run()
    found = spark.read.parquet(str(tmp_path / "orders"))
    assert sorted(row["id"] for row in found.collect()) == list(range(130))
    assert sorted({(row["item"], row["price"]) for row in found.collect()}) == [("jam", 5), ("tea", 3)]
    written = values(with_options(spark.read, topics.servers, {"subscribe": target}).load())
    assert sorted(json.loads(each)["id"] for each in written) == list(range(130))


@pytest.fixture
def demo_settings(spark: SparkSession) -> Iterator[None]:
    """The session as the demo sets it up, and back."""
    names = [name for name in demo.SESSION_SETTINGS if name.startswith("spark.sql.")]
    before = {name: spark.conf.get(name) for name in names}
    for name in names:
        spark.conf.set(name, demo.SESSION_SETTINGS[name])
    yield
    for name, value in before.items():
        if value is not None:
            spark.conf.set(name, value)


class Silence:
    """A watcher that keeps the last progress."""

    def __init__(self) -> None:
        self.last = (0, 0, 0)

    def stage(self, text: str) -> None:
        """Nothing to show."""

    def progress(self, *, sent: int, worked: int, total: int) -> None:
        """Keep it."""
        self.last = (sent, worked, total)


@pytest.mark.usefixtures("demo_settings")
def test_the_flights_demo_accounts_for_every_flight(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Rows in = delivered + late + dropped, hour by hour and carrier by carrier; late rows exist; the picture is drawn."""
    settings = demo.DemoSettings(
        servers=topics.servers, output=tmp_path, reports_per_s=100_000, reports_per_batch=4_000
    )
    watcher = Silence()
    outcome = demo.stream_flights(spark, settings, demo.load_inputs(12_000), watcher)
    assert [each for each in outcome.checks if not each.is_right] == []
    assert watcher.last == (12_003, 12_003, 12_003)
    assert outcome.batches > 2
    counts = outcome.fate.value_counts()
    assert counts[LATE] > 0
    assert counts[CANCELLED] == pd.Series(outcome.reports["dep_delay"]).isna().sum()
    draw(outcome.delays, outcome.reports, outcome.fate, tmp_path / "flights.png")
    assert (tmp_path / "flights.png").read_bytes().startswith(b"\x89PNG")
