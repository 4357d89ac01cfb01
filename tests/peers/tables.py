"""Where are the jars of Delta Lake? Fetched once with Maven, without what Spark has already."""

from __future__ import annotations

from tests.peers.kafka import CACHE, copy_jars, fetched_once

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings of a session that has Delta tables."""


def jars() -> str:
    """`spark.jars` for PySpark 4.2, fetched if they are not there; versions are in `tables.xml`."""
    home = CACHE / "spark-tables-4.4.0"
    with fetched_once(home) as is_missing:
        if is_missing:
            copy_jars("tables.xml", home)
    return ",".join(str(each) for each in sorted(home.glob("*.jar")))
