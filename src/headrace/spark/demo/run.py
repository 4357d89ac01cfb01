"""Replay, pipeline, account and picture together."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pandas as pd

from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.core.ids import TopicPartition
from headrace.spark.demo import account
from headrace.spark.demo.flights import PARTITIONS, Replay, load_tables, prepare_replay, write_tables
from headrace.spark.demo.replay import Replayer
from headrace.spark.pipeline.plan import make_plan
from headrace.spark.pipeline.runner import PipelineRunner, RunningPipeline
from headrace.spark.pipeline.spec import read_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORTS_TOPIC: Final = "flights"
DELAYS_TOPIC: Final = "flight-delays"
DELAYS_QUERY: Final = "flights-delays"
SESSION_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.statefulOperator.allowMultiple": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}
"""Late rows are judged by the watermark of their own batch (Spark would take that of the batch before, for chains of aggregations). The Java
options spare a run of a minute the compiler's second stage."""

_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """Where the demo runs and how fast; `output` gets the tables."""

    servers: str
    output: Path
    reports_per_s: int = 30_000
    reports_per_batch: int = 28_000


class Watcher(Protocol):
    """Who shows what is going on."""

    def stage(self, text: str) -> None:
        """A new part of the work begins."""

    def progress(self, *, sent: int, worked: int, total: int) -> None:
        """So many reports were sent, and so many worked on by the pipeline, of `total`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. `delays` is the pipeline's table; `fate` says for each row of `reports` what became of it."""

    checks: list[account.Check]
    delays: pd.DataFrame
    reports: pd.DataFrame
    fate: pd.Series
    held_up: int
    batches: int
    stream_s: float

    @property
    def is_right(self) -> bool:
        """Whether every count agrees with the source data."""
        return all(each.is_right for each in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the demo works on: the reports to send, and the tables that the pipeline joins."""

    replay: Replay
    airlines: pd.DataFrame
    weather: pd.DataFrame


def load_inputs(limit: int | None = None) -> Inputs:
    """Read the package's data and put the reports in order: the first `limit` flights of the year, None all. Takes seconds, and no Spark."""
    flights, airlines, weather = load_tables()
    return Inputs(
        replay=prepare_replay(flights if limit is None else flights.head(limit)), airlines=airlines, weather=weather
    )


def stream_flights(spark: SparkSession, settings: DemoSettings, inputs: Inputs, watcher: Watcher) -> Outcome:
    """Replay, work off, and account for every flight. Topics must not exist yet; queries and threads are ended whatever happens."""
    replay = inputs.replay
    with tempfile.TemporaryDirectory(prefix="headrace-flights-") as work, BlockingClient(settings.servers) as client:
        write_tables(inputs.airlines, inputs.weather, Path(work, "tables"))
        new = [
            admin_topics.NewTopic(name=REPORTS_TOPIC, partitions=PARTITIONS),
            admin_topics.NewTopic(name=DELAYS_TOPIC, partitions=1),
        ]
        client.run(admin_topics.create_topics, new)
        watcher.stage("streaming")
        started = time.monotonic()
        running = _start_pipeline(spark, settings, Path(work))
        replayer = Replayer(replay, servers=settings.servers, topic=REPORTS_TOPIC, reports_per_s=settings.reports_per_s)
        try:
            replayer.start()
            _watch(running, replayer, len(replay.values), watcher)
            running.drain()
            running.raise_failure()
            progress = running.progress(DELAYS_QUERY)
        finally:
            replayer.stop()
            replayer.join()
            running.stop()
        stream_s = time.monotonic() - started
        watcher.stage("accounting")
        bounds = account.batch_bounds(progress, REPORTS_TOPIC)
        return _outcome(replay, bounds, settings.output, client, stream_s)


def _start_pipeline(spark: SparkSession, settings: DemoSettings, work: Path) -> RunningPipeline:
    parameters = {
        "servers": settings.servers,
        "reports_topic": REPORTS_TOPIC,
        "delays_topic": DELAYS_TOPIC,
        "reports_per_batch": str(settings.reports_per_batch),
        "tables": str(work / "tables"),
        "output": str(settings.output.absolute()),
    }
    with as_file(files("headrace.spark.demo") / "flights.toml") as path:
        plan = make_plan(read_spec(path, parameters))
    return PipelineRunner(spark, plan, checkpoints=work / "checkpoints").start()


def _watch(running: RunningPipeline, replayer: Replayer, total: int, watcher: Watcher) -> None:
    """Until the replay is sent and worked off; raises what went wrong on either side."""
    while True:
        running.raise_failure()
        if replayer.error is not None:
            raise replayer.error
        worked = sum(report["numInputRows"] for report in running.progress(DELAYS_QUERY))
        watcher.progress(sent=replayer.sent, worked=worked, total=total)
        if replayer.is_done and worked >= total:
            return
        time.sleep(_LOOK_S)


def _outcome(
    replay: Replay, bounds: list[account.BatchBounds], output: Path, client: BlockingClient, stream_s: float
) -> Outcome:
    fate = account.classify(replay.reports, bounds)
    delays = pd.read_parquet(output / "delays")
    delays["hour"] = (
        delays["hour"].dt.tz_convert("UTC") if delays["hour"].dt.tz else delays["hour"].dt.tz_localize("UTC")
    )
    dropped = pd.read_parquet(output / "dropped")["reason"].value_counts()
    found = account.Found(
        delays=delays[["hour", "carrier", "flights", "dep_delay_minutes"]],
        dropped={str(reason): int(count) for reason, count in dropped.items()},
        records_in=_records(client, REPORTS_TOPIC, PARTITIONS),
        records_out=_records(client, DELAYS_TOPIC, 1),
    )
    return Outcome(
        checks=account.check(replay.reports, fate, replay.flights, found),
        delays=delays,
        reports=replay.reports,
        fate=fate,
        held_up=replay.held_up,
        batches=len(bounds),
        stream_s=stream_s,
    )


def _records(client: BlockingClient, topic: str, partitions: int) -> int:
    ends = client.list_offsets({TopicPartition(topic, number): -1 for number in range(partitions)})
    return sum(each.offset for each in ends.values())
