"""Where are the jars of Delta Lake? Fetched once with Maven, without what Spark has already."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.peers.kafka import CACHE

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings of a session that has Delta tables."""


def jars() -> str:
    """`spark.jars` for PySpark 4.2, fetched if they are not there; versions are in `tables.xml`."""
    home = CACHE / "spark-tables-4.4.0"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".done").exists():
            pom = Path(__file__).with_name("tables.xml")
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={home}"], check=True, stdout=sys.stderr, timeout=900)
            (home / ".done").touch()
    return ",".join(str(each) for each in sorted(home.glob("*.jar")))
