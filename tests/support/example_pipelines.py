"""How do tests run the worked pipelines of `examples`? As a user does: by their commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.spark.conftest import JAVA_OPTIONS

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples"


def started(*arguments: str) -> subprocess.Popen[str]:
    """A program of its own, in a process group of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "SPARK_SUBMIT_OPTS": JAVA_OPTIONS,  # of programs that do not say how their Java runs
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def done(*arguments: str) -> str:
    """What a program says that ends well."""
    with started(*arguments) as process:
        said, _ = process.communicate()
    assert process.returncode == 0, said
    return said


def pipeline(project: Path) -> list[str]:
    """The command that runs it."""
    where = ["--project", str(project), "--master", "local[2]"]
    return ["-m", "headrace", "pipeline", "run", *where, "--picture", str(project / "graph.svg")]
