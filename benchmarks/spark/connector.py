"""Where are the jars of Spark's own Kafka connector? Fetched once with Maven, without what Spark has already."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.peers.kafka import CACHE

ARTIFACTS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
    "lz4-java",
    "snappy-java",
)
"""What `spark.jars` needs besides PySpark 4.2.0; versions are in `connector.xml`."""


def jars() -> list[Path]:
    """The connector's jars, fetched if they are not there."""
    home = CACHE / "spark-connector-4.2.0"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".done").exists():
            pom = Path(__file__).with_name("connector.xml")
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={home}"], check=True, stdout=sys.stderr, timeout=900)
            (home / ".done").touch()
    found = sorted(home.glob("*.jar"))
    missing = [name for name in ARTIFACTS if not any(jar.name.startswith(name) for jar in found)]
    if missing:
        raise SystemExit(
            f"the connector's jars are incomplete in {home}: no {', '.join(missing)}; remove it and try again"
        )
    return found
