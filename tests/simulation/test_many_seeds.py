"""Hundreds of clusters under faults: no invariant is broken, and the runs reach the states that are worth reaching."""

from __future__ import annotations

import json
import os
import sys

import pytest

from headrace.cli.main import run as headrace
from headrace.sim.suites import SUITES

FIRST_SEED = int(os.environ.get("HEADRACE_SIM_SEED", "1"))


@pytest.mark.timeout(1_200)
def test_many_clusters_keep_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    """Sections 3, 4.1, 4.2 and 6 of the catalogue (`make sim`): at least 500 seeds and 2 million steps, each required marker, no violation.

    B-R18 B-R22 S4-66: a leader in time, the safety invariants, and histories of metadata calls judged against a model, with faults.
    """
    status = headrace(["sim", "--suite", "ci", "--seed", str(FIRST_SEED), "--json", "--no-shrink"])
    told = json.loads(capsys.readouterr().out)
    with capsys.disabled():
        rate = told["steps"] / told["seconds"]
        sys.stdout.write(f"\n{told['runs']} runs from seed {FIRST_SEED}, {told['steps']:,} steps, {rate:,.0f} steps/s ")
    assert [(each["invariant"], each["seed"], each["message"]) for each in told["failures"]] == []
    assert told["shortfalls"] == []
    assert status == 0
    assert told["runs"] == sum(part.seeds for part in SUITES["ci"].parts) >= 500
    assert told["steps"] >= 2_000_000
