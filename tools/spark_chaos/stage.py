"""What is broken: brokers, a topic that fills all the time, tables, and a Spark program in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import psycopg

from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.core.ids import Uuid
from headrace.records.record import NewRecord, build_batch
from headrace.testing import Cluster, Node
from tests.peers import spark_classes, tables
from tests.peers.postgres import Postgres

TABLES = ("parquet", "delta", "postgres")
PARTITIONS = 3
RECORDS_PER_BATCH = 250
RECORDS_PER_ROUND = 4_000
REST_S = 0.05
READY_S, ANSWER_S = 240.0, 480.0


class SparkProgram:
    """The process of `tools.spark_chaos.program`, with its Java and its Python workers in a process group of their own."""

    def __init__(self, directory: Path, servers: str, conninfo: str) -> None:
        self._directory = directory
        settings = {
            "directory": str(directory), "servers": servers, "conninfo": conninfo, "master": "local[3,8]",
            "config": {
                **tables.DELTA, "spark.jars": tables.jars(), "spark.driver.extraJavaOptions": spark_classes.java_options(), "spark.sql.session.timeZone": "UTC",
                "spark.sql.adaptive.enabled": "false", "spark.databricks.delta.snapshotPartitions": "2",
                "spark.sql.streaming.pollingDelay": "200ms",  # not a hundred times a second for each query that has nothing to read
            },
        }  # fmt: skip
        self._settings = directory / "settings.json"
        self._settings.write_text(json.dumps(settings))
        self._process: subprocess.Popen[str] | None = None
        self._orders = 0

    def start(self) -> None:
        """Start, and wait for the session."""
        with (self._directory / "program.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tools.spark_chaos.program", str(self._settings)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "SPARK_LOCAL_DIRS": str(self._directory / "local")},
            )  # fmt: skip
        assert self._answer(READY_S)["ready"]

    def do(self, what: str, **how: Any) -> Any:
        """An order and its result."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._orders += 1
        self._process.stdin.write(json.dumps({"id": self._orders, "do": what, "with": how}) + "\n")
        self._process.stdin.flush()
        answer = self._answer(ANSWER_S)
        assert answer["id"] == self._orders
        return answer["result"]

    def _answer(self, within_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        timer = threading.Timer(within_s, self.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"the Spark program ended or did not answer; see {self._directory}/program.log and spark.log"
        found: dict[str, Any] = json.loads(line)
        return found

    def python_workers(self) -> list[psutil.Process]:
        """Spark's Python processes that read, write or plan, without the daemon that they are forked from."""
        assert self._process is not None
        found = []
        for each in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "python" in each.name() and not any("python" in child.name() for child in each.children()):
                    found.append(each)
        return found

    def kill(self) -> None:
        """SIGKILL to all its processes."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process = None


class Feed(threading.Thread):
    """Fills a topic with numbers, some thousand when it is told, by one idempotent producer that outlasts brokers."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(name="feed", daemon=True)
        self._servers, self._topic = servers, topic
        self._change = threading.Condition()
        self._wanted = 0
        self._is_over = False
        self.sent = 0
        self.partitions = PARTITIONS
        self.error: Exception | None = None

    def run(self) -> None:
        """The thread's body."""
        try:
            with BlockingClient(self._servers, properties={"delivery.timeout.ms": "300000"}) as client:
                producer = client.producer()
                while self._waits_for_work():
                    self._send(producer)
                    time.sleep(REST_S)
        except Exception as error:  # noqa: BLE001 - the thread's edge: whoever waits for it raises the error
            self.error = error
        with self._change:
            self._change.notify_all()

    def _waits_for_work(self) -> bool:
        with self._change:
            self._change.notify_all()
            self._change.wait_for(lambda: self._is_over or self.sent < self._wanted)
            return not self._is_over

    def _send(self, producer: Any) -> None:
        first = self.sent
        records = [
            NewRecord(key=None, value=b"%d" % number, timestamp=1000)
            for number in range(first, first + RECORDS_PER_BATCH)
        ]
        producer.send(self._topic, first // RECORDS_PER_BATCH % self.partitions, build_batch(records))
        producer.flush()
        self.sent += RECORDS_PER_BATCH

    def go_on(self, records: int) -> None:
        """Send so many more."""
        with self._change:
            self._wanted += records
            self._change.notify_all()

    def finish(self) -> None:
        """Wait until all is sent. Raises what ended the feed."""
        with self._change:
            self._change.wait_for(lambda: self.error is not None or self.sent >= self._wanted, ANSWER_S)
        if self.error is not None:
            raise self.error
        assert self.sent >= self._wanted, f"{self.sent} of {self._wanted} records were acknowledged"

    def end(self) -> None:
        """For good."""
        with self._change:
            self._is_over = True
            self._change.notify_all()
        self.join(30)


class Stage:
    """Brokers, feed, PostgreSQL and Spark program; a query into each kind of table; `per_round` records for each fault. Used as a context manager."""

    def __init__(self, directory: Path, *, nodes: int, per_round: int = RECORDS_PER_ROUND) -> None:
        self.directory = directory
        self.per_round = per_round
        directory.mkdir(parents=True, exist_ok=True)
        self.cluster = Cluster(nodes=nodes, directory=directory / "cluster") if nodes > 1 else None
        self.node = None if nodes > 1 else Node(directory=directory / "node")
        self.postgres = Postgres()
        self.queries: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        (self.cluster or self.node).__enter__()  # type: ignore[union-attr]
        self.postgres.start()
        self.client = BlockingClient(self.servers)
        self.topic = self.make_topic("numbers", PARTITIONS)
        self.feed = Feed(self.servers, self.topic)
        self.feed.start()
        self.spark = SparkProgram(self.directory, self.servers, self.postgres.conninfo)
        self.spark.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.spark.kill()
        self.feed.end()
        self.client.close()
        self.postgres.stop()
        shutil.rmtree(self.postgres.directory, ignore_errors=True)
        (self.cluster or self.node).__exit__(kind, error, trace)  # type: ignore[union-attr]

    @property
    def servers(self) -> str:
        """Of the brokers."""
        return (self.cluster or self.node).bootstrap_servers  # type: ignore[union-attr]

    def make_topic(self, name: str, partitions: int = 1) -> str:
        """A topic that keeps its records, with copies where there are brokers for them."""
        new = admin_topics.NewTopic(name=name, partitions=partitions, configs={"retention.ms": "-1"})
        made = self.client.run(admin_topics.create_topics, [new])
        assert isinstance(made[name], Uuid), made
        return name

    def fill(self, topic: str, numbers: Sequence[int | str], partition: int = 0) -> None:
        """One batch of values."""
        records = [NewRecord(key=None, value=str(each).encode(), timestamp=1000) for each in numbers]
        self.client.produce_raw(topic, partition, build_batch(records))

    def start_query(self, name: str, table: str, topic: str, options: Mapping[str, str] | None = None) -> None:
        """A query from the topic into a table of that kind."""
        if table == "postgres":
            with psycopg.connect(self.postgres.conninfo) as connection:
                columns = 'partition int, "offset" bigint, number bigint'
                connection.execute(f"CREATE TABLE IF NOT EXISTS {name.replace('-', '_')} ({columns})")
        known = {"name": name, "table": table, "options": {"subscribe": topic, **(options or {})}}
        self.queries[name] = known
        self.spark.do("start", **known)

    def kill_spark(self) -> None:
        """A new program in the place of one that is killed with its Java and all its workers; queries from the topic that fills go on."""
        self.spark.kill()
        self.spark.start()
        for name in TABLES:
            if name in self.queries:
                self.spark.do("start", **self.queries[name])

    def start_queries(self) -> None:
        """From the topic that fills into each kind of table, or those again that there were."""
        for table in TABLES:
            self.start_query(table, table, self.topic, {"maxOffsetsPerTrigger": "1000"})

    def is_in_batch(self, name: str) -> bool:
        """Is a batch of the query planned and not done?"""
        place = self.directory / "checkpoints" / name
        return newest(place / "offsets") > newest(place / "commits")

    def wait_in_batch(self, wanted: Callable[[], bool], within_s: float = 120.0) -> None:
        """Wait until a condition on batches holds."""
        end = time.monotonic() + within_s
        while not wanted():
            assert time.monotonic() < end, "no batch in so long a time"
            assert self.feed.error is None, self.feed.error
            time.sleep(0.01)

    def drain(self, tries: int = 8) -> int:
        """Let the queries read all there is, and start those that failed again; how many did."""
        self.feed.finish()
        waiting, restarts = list(TABLES), 0
        failed: dict[str, str] = {}
        for _ in range(tries):
            failed = self.spark.do("drain", names=waiting)
            if not failed:
                return restarts
            self.note(json.dumps(failed))
            for name in failed:
                self.spark.do("start", **self.queries[name])
            restarts += len(failed)
        raise AssertionError(f"queries failed {tries} times in a row: {failed}")

    def judge(self, name: str, topic: str | None = None) -> dict[str, int]:
        """Rows in the table, and how many are lost, doubled, or from nowhere."""
        found: dict[str, int] = self.spark.do(
            "judge", name=name, table=self.queries[name]["table"], topic=topic or self.topic
        )
        return found

    def note(self, text: str) -> None:
        """Keep it for whoever looks."""
        with (self.directory / "notes.log").open("a") as file:
            file.write(text + "\n")


def newest(directory: Path) -> int:
    """The last batch that a directory of a checkpoint names, -1 where it names none."""
    return max((int(each.name) for each in directory.glob("[0-9]*") if each.name.isdecimal()), default=-1)
