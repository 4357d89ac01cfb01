"""Where are the jars of Spark's own Kafka connector? Fetched once with Maven, without what Spark has already (lz4 and snappy among it)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.peers.kafka import CACHE, copy_jars, fetched_once

SPARK: Final = "4.2.0"
"""The PySpark that these jars run on."""
ARTIFACTS: Final = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
"""What the class path needs besides Spark's own; versions are in `spark_connector.xml`."""


def jars() -> list[Path]:
    """The connector's jars, fetched if they are not there."""
    home = CACHE / f"spark-connector-{SPARK}"
    with fetched_once(home) as is_missing:
        if is_missing:
            copy_jars("spark_connector.xml", home)
    found = [jar for name in ARTIFACTS for jar in sorted(home.glob(f"{name}-*.jar"))[:1]]
    if len(found) < len(ARTIFACTS):
        raise SystemExit(f"the connector's jars are incomplete in {home}: remove it and try again")
    return found


def class_path() -> str:
    """The jars for `spark.driver.extraClassPath`, which a local session reads everything from."""
    return ":".join(str(jar) for jar in jars())
