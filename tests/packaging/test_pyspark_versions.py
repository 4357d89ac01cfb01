"""Do the Spark tests pass on the newest PySpark that is allowed, as they do on the oldest?

The lock file has the oldest one, which all other tests run on; the newest is laid over it for a run of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEWEST = "4.3.0"


def test_the_lock_file_has_the_oldest_pyspark_that_is_allowed() -> None:
    """What the other Spark tests run on is the lower bound of the extra."""
    oldest = re.search(r'"pyspark>=([\d.]+),', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    assert version("pyspark").startswith(f"{oldest[1]}.")


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.spark
def test_the_newest_pyspark_passes_the_spark_tests(tmp_path: Path) -> None:
    """With pandas 3 beside it, and warnings of ours as errors; the subprocess is told its PySpark by PYTHONPATH alone."""
    overlay = tmp_path / "pyspark"
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--target", overlay]
    done = subprocess.run([*install, f"pyspark=={NEWEST}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        "HEADRACE_VOLUMES": "quick",
        "PYTHONPATH": f"{overlay}{os.pathsep}{ROOT / 'src'}",
    }
    told = subprocess.run(
        [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == NEWEST
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/spark"]
    ran = subprocess.run(tests, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert re.search(r"\b\d\d passed", ran.stdout), ran.stdout[-500:]
