"""Which tests run one after the other on one worker of pytest-xdist: those of a file, and all that share the Spark session.

A second session costs what dozens of queries do: another Java process, and another daemon for each kind of Python worker.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from xdist.scheduler import LoadFileScheduling

SPARK: Final = "tests/spark"
OWN_SPARK: Final = (
    "test_declarative_pipelines",
    "test_example_flights",
    "test_example_telemetry",
    "test_spark_cluster",
    "test_spark_connect",
    "test_spark_planning",
    "test_spark_tables",
    "test_spark_tasks",
    "test_spark_without_java",
)
"""Files there whose tests start a Spark of their own, or none."""


def unit(nodeid: str) -> str:
    """What a test is handed out with."""
    file = nodeid.partition("::")[0]
    path = PurePosixPath(file)
    return SPARK if str(path.parent) == SPARK and path.stem not in OWN_SPARK else file


class ByFileAndSession(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As `--dist loadfile`, but for the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
