"""Does what `make dist` builds install, and work, on every Python that is here?

Each extra gets a fresh environment of its own, with nothing but the wheel and what the wheel asks for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from headrace import __version__
from tests.peers.kafka import free_ports
from tests.support.bare_path import bare_path
from tools.release_note import note, section

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
START = """
from headrace.client.blocking import BlockingClient
from headrace.testing import Node

with Node() as node, BlockingClient(node.bootstrap_servers) as client:
    from headrace.client import admin_cluster

    print(len(client.run(admin_cluster.nodes)), "node")
"""
PLOT = """
from headrace.spark.demo.plot import draw
from headrace.spark.demo.run import load_inputs

print(load_inputs(1_000).replay.flights, "flights")
"""
TOOLS = "import confluent_kafka, hypothesis, pytest; print('tools')"
# What is installed, a program, and what it prints; `spark` has a test of its own.
EXTRAS = {
    "": (START, "1 node"),
    "demo": (PLOT, "1000 flights"),
    "test": (TOOLS, "tools"),
}


SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that reads one row: half the CPU time of its start."""
NEWEST = "4.3.0"
"""The newest PySpark that is allowed; the lock file has the oldest, on which all other tests run."""


OF_THE_OLDEST = ("spark_same_rows", "spark_same_records", "spark_tables", "spark_cluster")
"""Tests that need jars made for the oldest PySpark (Spark's own connector, Delta Lake)."""


def pythons() -> list[str]:
    """Every released Python from 3.11 on, one of each minor version; this one first."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(11, 20):
        path = _python(f"3.{minor}")
        if path is not None:
            found.setdefault((3, minor), path)
    return list(found.values())


def this_and_newest() -> list[str]:
    """This Python and the newest: what Spark does on those between, it does on both."""
    here, *others = pythons()
    return [here, *others[-1:]]


def _python(version: str) -> str | None:
    """Where a Python of this version is that runs: on the PATH, or one that pyenv keeps."""
    managed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, managed.glob(f"{version}.*/bin/python")))]
    for path in filter(None, candidates):
        asked = subprocess.run([path, "-c", "import ensurepip"], capture_output=True, check=False)
        if asked.returncode == 0:
            return path
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with wheel and sdist, built from a copy of what git would clone."""
    place = tmp_path_factory.mktemp("dist")
    source = place / "source"
    ignored = shutil.ignore_patterns(".venv", ".git", "*.egg-info", "__pycache__", ".*_cache", "build", "dist")
    shutil.copytree(ROOT, source, ignore=ignored)
    subprocess.run([sys.executable, "-m", "build", "--outdir", place / "dist", source], check=True, capture_output=True)
    return place / "dist"


@pytest.fixture(scope="module")
def pyspark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a wheel of the newest PySpark, built once: it comes as source, and would be built for each environment."""
    place = tmp_path_factory.mktemp("pyspark")
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        place,
        f"pyspark=={NEWEST}",
    ]
    subprocess.run(pip, check=True, capture_output=True)
    return place


def wheel_of(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def test_wheel_and_sdist_hold_the_package_and_nothing_else(built: Path) -> None:
    """Data files are there (the plan of the demo, the mark of typed packages), tests and tools are not in the wheel."""
    with zipfile.ZipFile(wheel_of(built)) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {
        "headrace",
        "pyspark_headrace",
        "pyspark_headrace_metadata",
        f"headrace-{__version__}.dist-info",
    }
    assert {"headrace/py.typed", "headrace/spark/demo/flights.toml"} <= set(names)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/headrace/__init__.py"} <= packed


@pytest.mark.parametrize(
    ("python", "extra"),
    [
        pytest.param(python, extra, marks=() if not (extra or number) else pytest.mark.ci)
        for number, python in enumerate(pythons())
        for extra in EXTRAS
    ],
    ids=lambda value: "-".join(Path(value).parts[-3:]) if "/" in value else value or "plain",
)
def test_the_wheel_installs_and_works(
    request: pytest.FixtureRequest, built: Path, tmp_path: Path, python: str, extra: str
) -> None:
    """B-W01: a fresh environment, the wheel, one extra; warnings of ours are errors. In the quick volumes: this Python, no extra."""
    program, printed = EXTRAS[extra]
    place = tmp_path / "venv"
    wheel = f"{wheel_of(built)}[{extra}]" if extra else str(wheel_of(built))
    links = ["--find-links", request.getfixturevalue("pyspark")] if extra == "demo" else []
    environment = fresh_environment(python, place, [*links, wheel])
    done = subprocess.run(
        [place / "bin" / "python", "-W", "error:::headrace", "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr[-4000:]
    shutil.rmtree(place)


def inherited(*left_out: str) -> dict[str, str]:
    """This process's environment without the variables that begin so: a Spark session in this process says in some where its Spark is."""
    return {key: value for key, value in os.environ.items() if not key.startswith(left_out)}


def fresh_environment(python: str, place: Path, wanted: Sequence[str | Path]) -> dict[str, str]:
    """A new virtual environment with what is wanted; the variables in which its programs run."""
    environment = inherited("PYTHON", "VIRTUAL_ENV", "SPARK_", "PYSPARK_")
    environment["JAVA_TOOL_OPTIONS"] = SHORT_LIVED
    commands: tuple[list[str | Path], ...] = (
        [UV, "venv", "--quiet", "--no-python-downloads", "--python", python, place],
        [UV, "pip", "install", "--quiet", "--python", place / "bin" / "python", *wanted],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
    return environment


@pytest.mark.ci
@pytest.mark.spark
@pytest.mark.parametrize("python", this_and_newest(), ids=lambda value: "-".join(Path(value).parts[-3:]))
def test_the_quick_start_runs_without_java(built: Path, pyspark: Path, tmp_path: Path, python: str) -> None:
    """B-W01: the README's own lines, in a fresh environment with the wheel and `[spark]`, on a machine with no Java on its PATH."""
    place, data = tmp_path / "venv", tmp_path / "data"
    links: list[str | Path] = ["--find-links", pyspark]
    environment = fresh_environment(python, place, [*links, f"{wheel_of(built)}[spark]", "confluent-kafka"])
    bare = bare_path(tmp_path / "bin")
    environment = {key: value for key, value in environment.items() if key in bare} | {
        "PATH": f"{place / 'bin'}:{bare['PATH']}",
        "JAVA_TOOL_OPTIONS": SHORT_LIVED,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    assert shutil.which("java", path=environment["PATH"]) is None
    client, controller = free_ports(2)
    listeners = f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
    quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}"
    headrace = place / "bin" / "headrace"
    start: list[str | Path] = [
        headrace,
        "start",
        "-daemon",
        "--data",
        data,
        "--override",
        listeners,
        "--override",
        quorum,
    ]
    subprocess.run(start, cwd=tmp_path, env=environment, check=True)
    try:
        done = subprocess.run(
            [place / "bin" / "python", "-W", "error:::headrace", "-c", quick_start(f"127.0.0.1:{client}")],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run([headrace, "stop", "--data", data], cwd=tmp_path, env=environment, check=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "b'hello'" in done.stdout
    assert "[68 65 6C 6C 6F]" in done.stdout  # a row of the table that Spark shows
    shutil.rmtree(place)


def quick_start(servers: str) -> str:
    """The first two programs of the README's quick start, at another address."""
    text = (ROOT / "README.md").read_text().partition("## Quick start")[2].partition("In a test:")[0]
    programs = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(programs) == 2
    return "\n".join(programs).replace("127.0.0.1:9092", servers)


def test_the_lock_file_has_the_oldest_pyspark_that_is_allowed() -> None:
    """What the other Spark tests run on is the lower bound of the extra."""
    oldest = re.search(r'"pyspark(?:\[\w+\])?>=([\d.]+),', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    assert version("pyspark").startswith(f"{oldest[1]}.")


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.spark
def test_the_newest_pyspark_passes_the_spark_tests(pyspark: Path, tmp_path: Path) -> None:
    """With pandas 3 beside it, and warnings of ours as errors; laid over the one that is installed, by PYTHONPATH alone.

    Those that are marked for it: source, sink, streams, SQL, Connect, declarative pipelines. By hand all of them: `make spark-newest`.
    """
    overlay = tmp_path / "pyspark"
    install: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    wheel = next(pyspark.glob("*.whl"))
    subprocess.run([*install, "--target", overlay, wheel], check=True, capture_output=True)
    environment = {
        **inherited(
            "PYTEST_", "SPARK_", "PYSPARK_", "PYTHONDONTWRITEBYTECODE"
        ),  # what is laid over is not compiled yet
        "HEADRACE_VOLUMES": "quick",
        "PYTHONPATH": f"{overlay}{os.pathsep}{ROOT / 'src'}",
    }
    asked = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    told = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == NEWEST
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += [f"--ignore=tests/spark/test_{each}.py" for each in OF_THE_OLDEST]
    if os.environ.get("HEADRACE_NEWEST") != "all":
        options += ["-m", "each_pyspark"]
    tests = [sys.executable, "-m", "pytest", "tests/spark", *options]
    ran = subprocess.run(tests, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert re.search(r"\b\d{2,} passed", ran.stdout), ran.stdout[-500:]


def test_a_section_of_the_changelog_is_the_release_note() -> None:
    """A version's own section; before it has one, what is not released yet; a changelog without either is refused."""
    text = (
        "# Changelog\n\n## [Unreleased]\n\n- soon\n\n## [0.2.0] - 2026-01-01\n\n### Added\n\n- a\n\n## [0.1.0]\n\n- b\n"
    )
    assert section(text, "0.2.0") == "### Added\n\n- a"
    assert note(text, "0.1.0") == "# Headrace 0.1.0\n\n- b\n"
    assert note(text, "9.9.9") == "# Headrace 9.9.9\n\n- soon\n"
    with pytest.raises(ValueError, match="neither"):
        note("# Changelog\n", "1.0")
    assert section((ROOT / "CHANGELOG.md").read_text(), "Unreleased")
