"""Can two half-configured clusters be founded by accident? Only a flag founds one, and only on one node of the list."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from headrace.testing.cluster import Cluster
from tests.support.commands import headrace

PATIENCE_S = 60.0
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def running(cluster: Cluster, stack: ExitStack, *flags: str) -> None:
    """Every controller as a process, ended with the stack."""
    for member in cluster.controllers:
        command = [sys.executable, "-m", "headrace", "start", str(member.config), *flags]
        output = stack.enter_context(member.log.open("ab"))
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)


def explained(cluster: Cluster, is_wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        asked = ["--bootstrap-controller", cluster.bootstrap_controllers, "explain", "--json"]
        found = json.loads(headrace("quorum", *asked).out)
        if is_wanted(found):
            return found
        assert time.monotonic() < deadline, json.dumps(found, indent=1)
        time.sleep(0.5)


def test_only_the_flag_founds_a_quorum_and_only_one() -> None:
    """S4-19, S4-12, S4-40, D-07: formatted to join, three controllers wait; with --bootstrap the first of the list founds, the others join."""
    cluster = Cluster(controllers=3, dynamic=True, properties={"controller.quorum.auto.join.enable": "true"})
    for member in cluster.controllers:
        member.write_config(cluster.quorum_settings())
        made = headrace("storage", "format", "-c", str(member.config), "-t", CLUSTER, "-N")
        assert made.code == 0, made.err
    try:
        with ExitStack() as stack:
            running(cluster, stack)
            found = explained(cluster, lambda found: len(found["nodes"]) == 3)
            assert (found["state"], found["causes"][0]["kind"]) == ("leaderless", "not-founded")
        for flags in (("--bootstrap",), ("--bootstrap",), ()):
            with ExitStack() as stack:
                running(cluster, stack, *flags)
                explained(
                    cluster,
                    lambda found: (
                        found["state"] == "healthy"
                        and str(found["nodes"]).count("(voter)") == 3
                        and sum("is Leader" in line for line in found["nodes"]) == 1  # the nodes are asked in turn
                    ),
                )
    finally:
        cluster.end()
