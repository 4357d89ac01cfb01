"""What does every test share? Markers that need programs of the machine, and peers that are started once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.peers import kafka, postgres, shared_jvm
from tests.support import nursery, volumes

# How long an example takes says something about the machine, not about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

NEEDS = {
    "java": ("java and mvn", kafka.is_available),
    "kcat": ("kcat", lambda: shutil.which("kcat") is not None),
    "postgres": ("PostgreSQL", postgres.is_available),
}
MUST_NOT_SKIP = os.environ.get("HEADRACE_NO_SKIP") == "1"
WAITING = {"integration", "spark", "crash", "fuzz", "simulation", "packaging", "attacks"}
"""Directories of tests that start processes and wait for them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name what cannot run here; with HEADRACE_NO_SKIP=1 a missing program ends the run instead. Put the long ones first."""
    if not volumes.IS_CI:
        _leave_to_ci(items)
    items.sort(key=_turn)
    for marker, (programs, is_there) in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if not marked or is_there():
            continue
        if MUST_NOT_SKIP:
            raise pytest.UsageError(f"{len(marked)} tests need {programs}, and HEADRACE_NO_SKIP=1 forbids to skip them")
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs {programs}"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share the Spark session go to one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.scheduling import ByFileAndSession

    return ByFileAndSession(config, log)


def _leave_to_ci(items: list[pytest.Item]) -> None:
    """Deselect what only the continuous check runs."""
    left = [item for item in items if item.get_closest_marker("ci") is not None]
    if left:
        items[:] = [item for item in items if item.get_closest_marker("ci") is None]
        left[0].config.hook.pytest_deselected(items=left)


def _turn(item: pytest.Item) -> int:
    """Short tests come last: of several workers none is left alone with a long one at the end. Those of the Spark session are one long one."""
    if item.get_closest_marker("slow") is not None or "spark" in getattr(item, "fixturenames", ()):
        return 0
    return 1 if WAITING & set(item.path.relative_to(item.config.rootpath).parts[1:2]) else 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests measured is shown; a skip is a failure where skips are forbidden."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
    if MUST_NOT_SKIP and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("ERROR: tests were skipped, and HEADRACE_NO_SKIP=1 forbids it", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a green run with skips into a failed one where skips are forbidden."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if MUST_NOT_SKIP and exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def tools_in_one_jvm() -> Iterator[None]:
    """Kafka's tools share one JVM, if there is a test that runs one."""
    with shared_jvm.shared_tools():
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_processes() -> Iterator[None]:
    """What runs `python -m headrace` is forked off a process that has read the code."""
    with nursery.quick_processes():
        yield


@pytest.fixture(scope="session")
def shared_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Kafka]:
    """One Apache Kafka for all tests that only need some broker: use topics and groups of your own."""
    directory: Path = tmp_path_factory.mktemp("kafka")
    with kafka.Kafka(directory) as running:
        yield running
