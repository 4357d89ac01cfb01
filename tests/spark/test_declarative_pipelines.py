"""Do declarative pipelines take each record of a topic once into tables and topics, and does what is wrong end in one line?

One Spark Connect server serves all; the command runs as a process of its own, as a user has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.core.errors import OperatorError
from headrace.spark.declarative.graph import Flow
from headrace.spark.declarative.notes import EventTail, FlowNotes, load
from headrace.spark.declarative.project import NewProject, create_project, find_spec
from headrace.spark.declarative.run import Outcome, Refresh
from headrace.testing import Node
from tests.spark.conftest import JAVA_OPTIONS, Topics
from tests.support.metadata_load import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.each_pyspark]

SERVER = """
import sys
from pathlib import Path
from headrace.spark.declarative.notes import event_log
from headrace.spark.declarative.session import Place, connect_server, project_config
directory = Path(sys.argv[1])
settings = {"spark.driver.extraJavaOptions": sys.argv[2], "spark.sql.shuffle.partitions": "1"}
config = project_config(directory, {**event_log(directory / "events"), **settings})
with connect_server(Place(master="local[2]", config=config, log_path=directory / "spark.log")) as url:
    print(url, flush=True)
    sys.stdin.read()
"""
SINK = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("copies", "headrace", {{"kafka.bootstrap.servers": "{servers}", "topic": "{target}"}})


@dp.append_flow(target="copies")
def to_topic():
    return spark.readStream.table("{table}").selectExpr("upper(value) AS value")
"""
QUERY = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(json.dumps([[list(row) for row in spark.sql(text).collect()] for text in sys.argv[2:]]))
"""


@pytest.fixture(scope="module")
def server_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Connect server has catalog, warehouse and events."""
    directory = tmp_path_factory.mktemp("connect")
    (directory / ".headrace").mkdir()
    (directory / "events").mkdir()
    return directory


@pytest.fixture(scope="module")
def server(server_directory: Path) -> Iterator[str]:
    """The address of a Connect server."""
    directory = server_directory
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(directory), JAVA_OPTIONS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


@dataclass(slots=True)
class Project:
    """A project at a server, and what its command says."""

    directory: Path
    server: str

    def command(self, name: str, *more: str) -> tuple[int, str, str]:
        """Exit code, standard output and error of `headrace pipeline`."""
        words = [name, "--project", str(self.directory), "--remote", self.server, *more]
        done = subprocess.run(
            [sys.executable, "-m", "headrace", "pipeline", *words], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def query(self, *texts: str) -> list[list[list[object]]]:
        """Rows of SQL queries."""
        import json

        done = subprocess.run(
            [sys.executable, "-c", QUERY, self.server, *texts], capture_output=True, text=True, check=True
        )
        found: list[list[list[object]]] = json.loads(done.stdout)
        return found


def test_a_project_is_checked_run_and_refreshed(
    node: Node, topics: Topics, server: str, server_directory: Path, tmp_path: Path
) -> None:
    """Each record is in tables and topic once, after a second run and a refresh too; who is not asked for stays as it was."""
    source, target = topics.make(2), topics.make()
    topics.fill(source, ["a", "b"])
    topics.fill(source, ["c"], partition=1)
    project = Project(tmp_path / "orders", server)
    create_project(NewProject(directory=project.directory, servers=node.bootstrap_servers, topic=source))
    spec = project.directory / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace('partitions: "4"', 'partitions: "1"'))
    table = source.replace("-", "_")
    sink = SINK.format(servers=node.bootstrap_servers, target=target, table=table)
    (project.directory / "transformations" / "sink.py").write_text(sink)

    broken = project.directory / "transformations" / "broken.sql"
    broken.write_text("CREATE MATERIALIZED VIEW broken AS SELECT missing FROM " + table)
    code, _, error = project.command("validate")
    assert code == 1
    assert "UNRESOLVED_COLUMN" in error
    assert "missing" in error
    assert error.count("\n") == 1
    broken.unlink()

    code, said, error = project.command("run")
    assert (code, error) == (0, "")
    assert f"COMPLETED  spark_catalog.default.{table}\n" in said
    assert sorted(values_of(node, target)) == ["A", "B", "C"]
    notes = load(project.directory)
    tail = EventTail(server_directory / "events")

    def has_heard_of_both() -> bool:
        for progress in tail.take():
            notes.take_progress(progress)
        return (notes.flows[table].rows, notes.flows["to_topic"].rows) == (3, 3)

    wait_until(has_heard_of_both)
    assert notes.rows == {table: 3, f"{table}_by_partition": 2, f"{table}_with_key": 0, f"{table}_by_key": 0}
    assert notes.flows[table] == FlowNotes(state="COMPLETED", rows=3, out=3, lag=0)
    assert notes.flows["to_topic"] == FlowNotes(state="COMPLETED", rows=3, out=3)
    assert notes.graph.flows["to_topic"] == Flow("to_topic", "copies", (table,))
    assert notes.graph.flows[table] == Flow(table, table, (f"topic:{source}",))
    assert notes.graph.flows[f"{table}_by_key"].reads == (f"{table}_with_key",)

    code, said, error = project.command("run", "--refresh", table, "--full-refresh", "nowhere")
    assert (code, error.count("\n")) == (1, 1)
    assert f"--full-refresh nowhere: the pipeline has no such table; it has copies, {table}, " in error

    topics.fill(source, ["d"])
    everything = f"SELECT value FROM {table} ORDER BY value"
    counts = f"SELECT partition, records, last FROM {table}_by_partition ORDER BY partition"
    code, said, error = project.command("run", "--refresh", table, "--full-refresh", f"{table}_with_key")
    assert (code, error) == (0, "")
    assert f"COMPLETED  spark_catalog.default.{table}_with_key\n" in said
    assert f"EXCLUDED   spark_catalog.default.{table}_by_partition\n" in said
    assert project.query(everything, counts) == [[["a"], ["b"], ["c"], ["d"]], [[0, 2, 1], [1, 1, 0]]]
    code, _, error = project.command("run", "--full-refresh", f"default.{table}")
    assert (code, error, load(project.directory).flows[table].out) == (0, "", 4)


def values_of(node: Node, topic: str) -> list[str]:
    """The values of a topic, read without Spark."""
    from headrace.arrow.read import read_table

    return [each.decode() for each in read_table(node.bootstrap_servers, topic).column("value").to_pylist()]


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    """No server, no project, a directory in use, and options that exclude each other."""
    new = NewProject(directory=tmp_path / "orders", servers="127.0.0.1:9092", topic="orders")
    create_project(new)
    with pytest.raises(OperatorError, match="not empty"):
        create_project(new)
    assert find_spec(tmp_path / "orders") == tmp_path / "orders" / "spark-pipeline.yml"
    with pytest.raises(OperatorError, match="headrace pipeline init"):
        find_spec(tmp_path)
    with pytest.raises(OperatorError, match="is everything"):
        Refresh(is_full=True, only=("orders",))
    gone = Project(tmp_path / "orders", "sc://127.0.0.1:1")
    code, said, error = gone.command("run")
    assert (code, said) == (1, "")
    assert (
        error == "--remote sc://127.0.0.1:1: no Spark Connect server answers there ([Errno 111] Connection refused)\n"
    )


def test_a_flow_that_was_tried_again_and_completed_has_no_error() -> None:
    """Spark starts a failed flow again; what counts is how it ended."""
    outcome = Outcome()
    assert outcome.take("Flow `a`.`b`.`c` is RUNNING.") == ("a.b.c", "RUNNING")
    failed = "Flow 'a.b.c' has FAILED.\nError: [BAD] It broke. SQLSTATE: 42000\n\tat java.Thing(1)"
    assert outcome.take(failed) == ("a.b.c", "FAILED")
    assert outcome.errors == {"a.b.c": "[BAD] It broke."}
    assert outcome.take("Run is COMPLETED.") is None
    outcome.take("Flow a.b.c has COMPLETED.")
    assert (outcome.states, outcome.errors) == ({"a.b.c": "COMPLETED"}, {})
    outcome.take("Failed to resolve flow: 'a.b.d'.\nError: [NO] No x. SQLSTATE: 42703; line 1 pos 42;\n'Project ['x]\n")
    assert outcome.errors == {"a.b.d": "[NO] No x.; line 1 pos 42"}


def test_of_what_fails_in_python_the_error_is_told_and_not_the_way_to_it() -> None:
    """The last line of the last traceback, without SQL states; of ours the words alone."""
    traceback = """Traceback (most recent call last):
  File "/usr/lib/python_streaming_source_runner.py", line 267, in main
    partitions = self._cluster.check_selected()
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

  File "/usr/lib/headrace/spark/cluster.py", line 102, in check_selected
"""
    before = "Flow 'a.b.c' has FAILED.\nError: [STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON] Failed when "
    outcome = Outcome()
    outcome.take(
        f"{before}{traceback}headrace.core.errors.OperatorError: there is no topic x\n SQLSTATE: 38000 SQLSTATE: XXKST"
    )
    assert outcome.errors == {"a.b.c": "there is no topic x"}
    chained = f"{traceback}ValueError: first\n\nThe above exception was the direct cause:\n\n{traceback}"
    outcome.take(f"{before}{chained}pyspark.errors.PySparkError: [X] second\n SQLSTATE: 38000\n\tat java.Thing(1)")
    assert outcome.errors == {"a.b.c": "PySparkError: [X] second"}
