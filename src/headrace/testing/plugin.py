"""The fixtures that pytest finds after an install.

``headrace_node``: a real node for one test, in its process, gone after it. ``headrace_cluster``: three real nodes that a test kills, pauses and cuts
off from one another. ``headrace_simulation``: clusters on simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.sim.scenario import Simulation
    from headrace.testing.cluster import Cluster
    from headrace.testing.node import Node


@pytest.fixture
def headrace_node() -> Iterator[Node]:
    """A running node with temporary data on a random port of 127.0.0.1; ``headrace_node.bootstrap_servers`` says where."""
    from headrace.testing.node import Node

    with Node(in_process=True) as node:
        yield node


@pytest.fixture
def headrace_cluster() -> Iterator[Cluster]:
    """Three running nodes with temporary data, each controller and broker in one: ``kill``, ``pause``, ``resume``, ``restart``, ``partition``, ``heal``."""
    from headrace.testing.cluster import Cluster

    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def headrace_simulation() -> Iterator[Callable[..., Simulation]]:
    """Makes started clusters on simulated time: ``headrace_simulation(controllers=3, brokers=3, racks=3, seed=7)``.

    See ``headrace.sim.scenario.Simulation`` for what a test can do with one. At the end of the test the costly invariants are checked too.
    """
    from headrace.sim.scenario import Simulation

    made: list[Simulation] = []

    def make(**sizes: Any) -> Simulation:
        simulation = Simulation(**sizes)
        simulation.start()
        made.append(simulation)
        return simulation

    yield make
    for simulation in made:
        simulation.cluster.judge_safety()
