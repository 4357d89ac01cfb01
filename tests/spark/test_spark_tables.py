"""Do streams into Parquet, Delta Lake and PostgreSQL lose or double a row when something dies, and is what cannot go on told in one line?

A slice of `make spark-chaos`: two starts of Spark, three nodes, a PostgreSQL, half the records.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tools.spark_chaos.faults import run_live, run_spoilt
from tools.spark_chaos.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.postgres, pytest.mark.slow]

SLICE = ("workers", "broker", "driver")
SPOILT_SLICE = (("recreated", "parquet"), ("expired", "postgres"), ("checkpoint", "parquet"))


def test_tables_are_right_whatever_dies_in_the_middle_of_batches(tmp_path: Path) -> None:
    """All Python workers, the leader of a partition, the driver; and a topic made anew, records that expired, a damaged checkpoint, each of which ends in one error with its remedy."""
    rng = random.Random(11)
    with Stage(tmp_path, nodes=3, per_round=2_000) as stage:
        stage.start_queries()
        for fault in SLICE:
            assert run_live(stage, fault, rng).endswith("0 lost, 0 doubled")
        for fault, table in SPOILT_SLICE:
            run_spoilt(stage, fault, table, 0)
