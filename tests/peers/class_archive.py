"""How does a JVM of Kafka's start in half the time? It maps an archive of the classes that a broker and the tools load.

As a program it fetches Kafka and makes the archive, and Spark's (`spark_classes.py`), unless they are there; without java or mvn it says so and
leaves it at that::

    python -m tests.peers.class_archive

Class data sharing is described in JEP 310. A JVM of another build than the one that made the archive does without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

from tests.peers import kafka, spark_classes


def make() -> None:
    """Record which classes one broker and some tools load, and archive these. Takes about 20 s."""
    with tempfile.TemporaryDirectory(prefix="headrace-classes-") as scratch:
        lists = Path(scratch) / "lists"
        lists.mkdir()
        with patch.dict(os.environ, JAVA_TOOL_OPTIONS=f"-XX:DumpLoadedClassList={lists}/%p"):
            _load_classes(Path(scratch) / "kafka")
        loaded = {line for each in lists.iterdir() for line in each.read_text().splitlines() if line[:1] != "#"}
        together = Path(scratch) / "classes"
        together.write_text("\n".join(sorted(loaded)) + "\n")
        unfinished = kafka.ARCHIVE.with_suffix(".new")
        files = [f"-XX:SharedClassListFile={together}", f"-XX:SharedArchiveFile={unfinished}"]
        command = ["java", *kafka.QUICK_JVM, "-Xlog:disable", "-Xshare:dump", *files, "-cp", f"{kafka.HOME}/libs/*"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        unfinished.rename(kafka.ARCHIVE)


def _load_classes(directory: Path) -> None:
    with kafka.Kafka(directory) as broker:
        where = ["--bootstrap-server", broker.bootstrap]
        topic = ["--topic", "any"]
        kafka.run_tool("kafka-topics", *where, "--create", *topic, check=True)
        kafka.run_tool("kafka-console-producer", *where, *topic, stdin="one\n", check=True)
        kafka.run_tool("kafka-console-consumer", *where, *topic, "--from-beginning", "--max-messages", "1", check=True)
        kafka.run_tool("kafka-features", *where, "describe", check=True)
    (segment,) = broker.data.glob("any-0/*.log")
    kafka.run_tool("kafka-dump-log", "--files", str(segment), check=True)


def main() -> int:
    """The program of this file's docstring."""
    if not kafka.is_available():
        sys.stdout.write("java or mvn is missing: tests beside Apache Kafka cannot run here\n")
        return 0
    kafka.install()
    wanted = (("Apache Kafka", kafka.ARCHIVE, make), ("Spark", spark_classes.archive(), spark_classes.make))
    with ThreadPoolExecutor() as side_by_side:
        list(side_by_side.map(_make_if_missing, *zip(*wanted, strict=True)))
    return 0


def _make_if_missing(of: str, archive: Path, make: Callable[[], None]) -> None:
    if archive.exists():
        return
    try:
        make()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        sys.stdout.write(f"tests start {of} without a class archive, which this JVM does not make: {error}\n")


if __name__ == "__main__":
    sys.exit(main())
