"""How long is a quorum of three without an active controller, ours and Apache Kafka's, in one run?

``python -m benchmarks.failover [--rounds 10] [--pauses 3] [--only headrace]``. Three controllers run on loopback; a client at each asks for one
change after another. Then the active controller is killed (SIGKILL), stopped (SIGTERM) or paused (SIGSTOP), and the time is
taken until the next change is acknowledged, by whichever node. The result goes to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.table import Table

import headrace
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.peers import kafka
from tests.peers.quorum import MixedCluster
from tests.support.metadata_load import Changer, wait_until

RESULTS: Final = Path(__file__).parent / "results"
CONTROLLERS: Final = (1, 2, 3)
EVENTS: Final = ("SIGKILL", "SIGTERM", "SIGSTOP")
FETCH_TIMEOUT_MS: Final = 2_000
_ASK_EVERY_S = 0.005
_STEADY_S = 3.0
_RANGE = 10_000_000
_RECENT = 100_000


class Clients:
    """A thread for each controller that asks only this one for changes; notes who acknowledged when."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: list[tuple[float, int]] = []
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(cluster, member), daemon=True) for member in cluster.controllers
        ]

    def _run(self, cluster: Cluster, member: Member) -> None:
        changer = Changer(_One(cluster, member), next_number=member.node_id * _RANGE)
        while not self._stopped.wait(_ASK_EVERY_S):
            if changer.attempt(timeout_s=0.5) is not None:
                self.acknowledged.append((time.monotonic(), member.node_id))
        changer.close()

    def longest_gap(self, since: float, old_leader: int) -> float:
        """Wait for a change that another than `old_leader` acknowledged after `since`; the longest time without one up to there."""
        wait_until(lambda: any(node_id != old_leader for _, node_id in self._since(since)))
        times: list[float] = []
        for at, node_id in sorted(self._since(since - 0.1)):
            times.append(at)
            if node_id != old_leader and at > since:
                break
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def _since(self, since: float) -> list[tuple[float, int]]:
        return [each for each in self.acknowledged[-_RECENT:] if each[0] >= since]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()


class _One(Cluster):
    """A cluster of which a client knows one controller."""

    def __init__(self, cluster: Cluster, member: Member) -> None:
        self.members = {member.node_id: member}


def measure(name: str, event: str, rounds: int) -> list[float]:
    """Seconds without a change, one a round; each round has the whole cluster up and a settled leader at its start."""
    kafkas = CONTROLLERS if name == "kafka" else ()
    settings = {"controller.quorum.fetch.timeout.ms": str(FETCH_TIMEOUT_MS)}
    found: list[float] = []
    with MixedCluster(kafkas=kafkas, quick=False, controllers=len(CONTROLLERS), properties=settings) as cluster:
        with Clients(cluster) as clients:
            for _ in range(rounds):
                leader = cluster.leader()
                time.sleep(_STEADY_S)
                began = time.monotonic()
                _strike(leader, event)
                found.append(clients.longest_gap(began, leader.node_id))
                _undo(cluster, leader, event)
        if event == "SIGSTOP":
            time.sleep(_STEADY_S)
    return found


def _strike(leader: Member, event: str) -> None:
    match event:
        case "SIGKILL":
            leader.kill()
        case "SIGTERM":
            leader.terminate()
        case _:
            leader.pause()


def _undo(cluster: Cluster, leader: Member, event: str) -> None:
    if event == "SIGSTOP":
        time.sleep(1)
        leader.resume()
    else:
        leader.wait_until_ended()
        cluster.start(leader.node_id)


def summary(found: Sequence[float]) -> dict[str, float]:
    """Median, least and most, in seconds."""
    return {
        "median": round(statistics.median(found), 3),
        "min": round(min(found), 3),
        "max": round(max(found), 3),
        "rounds": len(found),
    }


def show(results: dict[str, dict[str, dict[str, float]]]) -> None:
    """The table."""
    table = Table(title="Seconds until a change of metadata is acknowledged again: median (least to most)")
    table.add_column("the active controller gets")
    for name in results:
        table.add_column(name)
    for event in EVENTS:
        cells = [results[name].get(event) for name in results]
        shown = ["" if c is None else f"{c['median']:.2f} ({c['min']:.2f} to {c['max']:.2f})" for c in cells]
        table.add_row(event, *shown)
    Console().print(table)


def write(results: dict[str, dict[str, dict[str, float]]]) -> Path:
    """The result file."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    content = {
        "headrace": headrace.__version__,
        "commit": commit.stdout.strip(),
        "kafka": kafka.VERSION,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "fetch_timeout_ms": FETCH_TIMEOUT_MS,
        "seconds": results,
    }
    path = RESULTS / f"failover-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def main(arguments: Sequence[str]) -> None:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="of SIGKILL and of SIGTERM")
    parser.add_argument("--pauses", type=int, default=3, help="rounds of SIGSTOP")
    parser.add_argument("--only", choices=("headrace", "kafka"), action="append", help="one system")
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.only or ("headrace", "kafka"):
        for event in EVENTS:
            rounds = options.pauses if event == "SIGSTOP" else options.rounds
            if rounds:
                results.setdefault(name, {})[event] = summary(measure(name, event, rounds))
    show(results)
    if not options.dry:
        sys.stdout.write(f"{write(results)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
