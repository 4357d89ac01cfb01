"""Does a pipeline run on a standalone cluster whose Python has no Headrace but what the query brings, and does a worker that is killed cost no row?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from headrace.spark import session
from headrace.spark.session import bundled_java_home, has_java
from headrace.spark.spark_home import compiled_spark_home
from headrace.testing.node import free_ports
from tests.spark.conftest import JAVA_OPTIONS, Topics
from tests.support.metadata_load import wait_until

pytestmark = pytest.mark.spark

ROOT: Final = Path(__file__).parents[2]
RECORDS: Final = 3_000
PROGRAM: Final = """
import json, sys
from pathlib import Path
from headrace.spark.session import local_session, stop_session
from headrace.spark.source import HeadraceDataSource

master, servers, topic, directory, java, config, package = sys.argv[1:]
spark = local_session("cluster", master=master, log_path=Path(directory, "driver.log"), config={
    **json.loads(config), "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": java, "spark.executor.extraJavaOptions": java, "spark.executor.memory": "512m", "spark.executor.cores": "1"})
if package:
    spark.sparkContext.addPyFile(package)
    spark.dataSource.register(HeadraceDataSource)
where = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
seen = spark.sparkContext.parallelize(range(2), 2).map(lambda _: __import__("headrace").__file__).collect()
print("package", *sorted(set(seen)), flush=True)
if "stream" in sys.stdin.readline():
    rows = spark.readStream.format("headrace").options(**where, maxOffsetsPerTrigger="300", minPartitions="4").load()
    query = rows.selectExpr("partition", "offset", "CAST(value AS STRING) AS value").writeStream.format("parquet").option(
        "checkpointLocation", directory + "/checkpoint").trigger(availableNow=True).start(directory + "/table")
    query.awaitTermination()
    table = spark.read.parquet(directory + "/table")
    print("rows", table.count(), table.distinct().count(), flush=True)
else:
    print("rows", spark.read.format("headrace").options(**where).load().count(), flush=True)
stop_session(spark)
"""


class StandaloneCluster:
    """A master and two workers, each a process group; what they say is in `directory`."""

    def __init__(self, directory: Path, python: Path) -> None:
        import pyspark

        self._directory = directory
        self._home = compiled_spark_home(session._cache()) or Path(
            pyspark.__path__[0]
        )  # that of the archive of classes
        (self.port,) = free_ports(1)
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))},
            "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(self._home), "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }  # fmt: skip
        if not has_java():
            self._environment["JAVA_HOME"] = str(bundled_java_home())
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def master(self) -> str:
        """For a session."""
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> StandaloneCluster:
        self._start("master", "master.Master", "--port", str(self.port))
        wait_until(lambda: "New state: ALIVE" in self.log("master"))
        for name in ("worker-1", "worker-2"):
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._directory / name)]
            self._start(name, "worker.Worker", *place, self.master)
        for name in ("worker-1", "worker-2"):
            wait_until(lambda name=name: "Successfully registered with master" in self.log(name))  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.processes:
            self.kill(name)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with (self._directory / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self._directory / f"{name}.log").read_text()

    def kill(self, name: str) -> None:
        """SIGKILL to a worker with its executors and their Python."""
        process = self.processes[name]
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published."""
    place = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", place / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    subprocess.run(
        [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", place / "dist", place], check=True
    )
    (built,) = (place / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with everything that the package needs, and without it."""
    place = tmp_path_factory.mktemp("bare") / "environment"
    venv.create(place, symlinks=True)
    packages = next((place / "lib").glob("python*")) / "site-packages"
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


def packed(environment: Path, wheel: Path, into: Path) -> Path:
    """The environment with the package in it as an archive, as `venv-pack` makes it."""
    copy = into / "environment"
    shutil.copytree(environment, copy, symlinks=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(next((copy / "lib").glob("python*")) / "site-packages")
    with tarfile.open(into / "environment.tar.gz", "w:gz") as archive:
        archive.add(copy, ".")
    return into / "environment.tar.gz"


class Driver:
    """The program of a user, in a process of its own."""

    def __init__(self, cluster: StandaloneCluster, topics: Topics, topic: str, directory: Path) -> None:
        self._directory = directory
        self._arguments = [cluster.master, topics.servers, topic, str(directory), JAVA_OPTIONS]

    def start(self, python: str, kind: str, *, config: str = "{}", package: str = "") -> subprocess.Popen[str]:
        """Begin; the first line that it says is in which files executors found the package."""
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": paths}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *self._arguments, config, package],
            cwd=self._directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdin is not None
        process.stdin.write(kind + "\n")
        process.stdin.flush()
        return process


@pytest.fixture
def cluster(bare_python: Path, tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Running; its executors' Python is the bare one."""
    with StandaloneCluster(tmp_path, bare_python / "bin" / "python") as running:
        yield running


def test_a_pipeline_on_a_standalone_cluster(
    cluster: StandaloneCluster, topics: Topics, bare_python: Path, wheel: Path, tmp_path: Path
) -> None:
    """The wheel as a zip, or an environment by `spark.archives`; every row once, though a worker is killed in mid-stream."""
    topic = topics.make(3)
    for partition in range(3):
        topics.fill(topic, [f"{partition}-{each}" for each in range(RECORDS // 3)], partition=partition)
    archive = packed(bare_python, wheel, tmp_path)
    wheel_as_zip = shutil.copy(wheel, tmp_path / "headrace.zip")
    driver = Driver(cluster, topics, topic, tmp_path)
    commits = tmp_path / "checkpoint" / "commits"
    with ExitStack() as stack:
        program = stack.enter_context(
            driver.start(str(bare_python / "bin" / "python"), "stream", package=str(wheel_as_zip))
        )
        stack.callback(program.kill)
        assert program.stdout is not None
        word, *places = (program.stdout.readline() or (tmp_path / "driver.log").read_text()[-3000:]).split()
        assert word == "package", (tmp_path / "driver.log").read_text()[-3000:]
        assert all("headrace.zip" in place for place in places), places
        wait_until(lambda: (commits / "3").exists())
        cluster.kill("worker-1")
        assert not (commits / str(RECORDS // 300 - 1)).exists()
        assert program.stdout.readline() == f"rows {RECORDS} {RECORDS}\n", (tmp_path / "driver.log").read_text()[-3000:]
        assert program.wait() == 0
    config = f'{{"spark.archives": "{archive}#environment"}}'
    with driver.start("./environment/bin/python", "batch", config=config) as program:
        assert program.stdout is not None
        word, *places = (program.stdout.readline() or (tmp_path / "driver.log").read_text()[-3000:]).split()
        assert word == "package"
        assert all("/environment/lib/" in place for place in places), places
        assert program.stdout.readline() == f"rows {RECORDS}\n"
