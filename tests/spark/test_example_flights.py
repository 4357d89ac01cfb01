"""Does the flights pipeline run as its README says, through being killed too, and is every report accounted for?"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from headrace.spark.declarative.notes import load
from headrace.testing import Node
from tests.support.example_pipelines import EXAMPLES, done, pipeline, started
from tests.support.metadata_load import wait_until

pytestmark = pytest.mark.spark

FLIGHTS: Final = int(os.environ.get("HEADRACE_FLIGHTS", "9000"))
KILLS: Final = int(os.environ.get("HEADRACE_PIPELINE_KILLS", "1"))
"""By hand: `make flights`."""
FLOWS: Final = ("reports", "flights", "delays")
"""One begins when the one before it has all there is, so they are interrupted in this order."""
BATCHES: Final = 4 + 2 * KILLS
"""Of the reports: each kill comes when two more are over, and what it interrupts has some before it."""


def run_and_kill(project: Path, is_time: Callable[[], bool]) -> None:
    """Begin a run and kill it at that time, with its Java and its workers."""
    with started(*pipeline(project)) as process:

        def has_ended_or_is_time() -> bool:
            assert process.poll() is None, process.stdout and process.stdout.read()
            return is_time()

        try:
            wait_until(has_ended_or_is_time, timeout_s=300)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def batches_done(project: Path, flow: str) -> int:
    """Micro-batches of a flow that are over."""
    return sum(1 for each in (project / "storage").glob("**/commits/[0-9]*") if f"/{flow}/" in str(each))


def test_flights_are_all_accounted_for_though_runs_are_killed(tmp_path: Path) -> None:
    """Bronze, silver, gold and topic, to the last report: decoded, quarantined, late, cancelled; killed in the middle and gone on with."""
    project = tmp_path / "flights-pipeline"
    with Node() as node:
        size = ["--flights", str(FLIGHTS), "--reports-per-batch", str(FLIGHTS // BATCHES)]
        where = ["--bootstrap-server", node.bootstrap_servers, "--project", str(project)]
        said = done(str(EXAMPLES / "flights" / "prepare.py"), *where, *size)
        assert f"{FLIGHTS + 3:,} records" in said
        for kill in range(KILLS):
            flow = FLOWS[kill * len(FLOWS) // KILLS]
            before = batches_done(project, flow)
            run_and_kill(project, lambda flow=flow, before=before: batches_done(project, flow) >= before + 2)  # type: ignore[misc]
        done(*pipeline(project))
        said = done(str(EXAMPLES / "flights" / "check.py"), "--project", str(project))
        assert "WRONG" not in said
    notes = load(project)
    damaged = notes.rows["quarantine"]
    assert notes.rows["reports"] == FLIGHTS + 3 == notes.rows["flights"] + damaged
    assert {each.state for each in notes.flows.values()} == {"COMPLETED", ""}  # views have none
    assert notes.flows["delays"].late
    assert f">streaming table · {notes.rows['delays']:,} rows<" in (project / "graph.svg").read_text()
    assert (project / "flights.png").read_bytes().startswith(b"\x89PNG")
