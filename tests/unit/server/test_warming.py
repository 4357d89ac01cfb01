"""Is the code that requests need read before they come?"""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import headrace
from headrace.server.warming import WarmUp, first_uses

ROOT = Path(headrace.__file__).parent
SERVING = ("broker", "controller", "coordinator", "rpc", "raft", "metadata", "replication")
"""Packages whose code runs on the event loop when a client asks for something."""
PROGRAM = """
import sys
import headrace.server.run, headrace.server.node_server
from headrace.server.warming import first_uses
for use in first_uses({"broker", "controller"}):
    use()
print("\\n".join(sys.modules))
"""


def imported_late() -> Iterator[str]:
    """The modules that functions of these packages import when they are called."""
    for package in SERVING:
        for path in (ROOT / package).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    for node in ast.walk(function):
                        if isinstance(node, ast.ImportFrom) and node.module is not None:
                            yield node.module
                        elif isinstance(node, ast.Import):
                            yield from (each.name for each in node.names)


def test_whatever_requests_need_is_read_before_they_come() -> None:
    """inv:M6: the first FindCoordinator after a start held the loop for 80 ms."""
    late = set(imported_late())
    assert "headrace.coordinator.groups.machine" in late
    found = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout.split()
    assert late - set(found) == set()
    handlers = {f"headrace.broker.handlers.{path.stem}" for path in (ROOT / "broker" / "handlers").glob("[a-z]*.py")}
    assert handlers - set(found) == set()


def test_a_controller_reads_nothing_of_a_brokers_groups() -> None:
    """Memory is for what a process serves."""
    assert (
        len(list(first_uses({"controller"})))
        < len(list(first_uses({"broker"})))
        < len(list(first_uses({"broker", "controller"})))
    )


def test_a_node_that_stops_at_once_does_not_wait_for_it() -> None:
    """Its thread is gone when `stop` returns."""
    warm_up = WarmUp(("broker",))
    warm_up.start()
    warm_up.stop()
    assert "headrace-warm-up" not in {thread.name for thread in threading.enumerate()}
