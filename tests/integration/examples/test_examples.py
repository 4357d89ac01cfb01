"""Do the examples run, and show what they say that they show?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
SHOWN = {
    "produce_and_consume.py": r"a-1: 2 apples\nb-7: 1 pear\na-2: 3 plums\n",
    "cut_off_leader.py": r"before the cut: acknowledged\nanother node leads\nduring the cut: acknowledged\nafter it all three nodes have every record\n",
    "simulated_cluster.py": r"at \d+ s: leaders \[101, 102, 103\]\nat \d+ s: rack-\d has no power, and its controller and broker lead "
    r"nothing any more\nat \d+ s: all is back, retention.ms is 86400000\n",
    "topic_to_arrow.py": r"100000 rows, columns key, value, topic, partition, offset, timestamp, timestampType; sum 4999950000\n",
    "admin_and_metrics.py": r"orders: 4 partitions, \{'retention.ms': '7200000'\}\nnode 1 leads the quorum in epoch \d+\n"
    r"kafka_controller_kafkacontroller_activecontrollercount 1\nkafka_controller_kafkacontroller_globaltopiccount 1\n"
    r"kafka_server_replicamanager_partitioncount 4\n",
}


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_promises(name: str) -> None:
    """Its output is what a reader of it expects."""
    done = _run(str(EXAMPLES / name))
    assert (done.returncode, re.fullmatch(SHOWN[name], done.stdout) is not None) == (0, True), done.stdout + done.stderr


def test_the_example_of_a_test_passes() -> None:
    """As a user runs it: with pytest alone, without the settings of this repository."""
    done = _run(
        "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", str(EXAMPLES / "test_leader_is_killed.py")
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_every_example_is_run_told_and_short() -> None:
    """Each has a line in the README there, and fits on a screen."""
    names = {path.name for path in EXAMPLES.glob("*.py")}
    told = set(re.findall(r"\]\(([\w.]+\.py)\)", (EXAMPLES / "README.md").read_text()))
    lengths = {name: len((EXAMPLES / name).read_text().splitlines()) for name in names}
    assert (names, told) == ({*SHOWN, "test_leader_is_killed.py"}, names)
    assert {name: length for name, length in lengths.items() if length > 60} == {}
