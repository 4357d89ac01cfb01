"""How does a test get a quorum of real nodes, and what must hold of it at its end?

``HEADRACE_QUORUM_OF=kafka`` runs the same tests on controllers of Apache Kafka: what they demand is what Kafka does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.testing.cluster import Cluster
from tests.peers.quorum import MixedCluster

IS_KAFKA = os.environ.get("HEADRACE_QUORUM_OF") == "kafka"

NewCluster = Callable[..., Cluster]


@pytest.fixture
def new_cluster(request: pytest.FixtureRequest) -> Iterator[NewCluster]:
    """Makes clusters that are not started; they are ended with the test."""
    made: list[Cluster] = []

    def make(**settings: Any) -> Cluster:
        cluster = MixedCluster(kafkas=range(1_000) if IS_KAFKA else (), **settings)
        made.append(cluster)
        return cluster

    yield make
    failed = getattr(request.node, "quorum_failed", False)
    for cluster in made:
        cluster.end(keep=failed)
        if failed:
            sys.stdout.write(f"the cluster's logs and data are in {cluster.directory}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember a failure for the fixture; name where the logs are."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        item.quorum_failed = True  # type: ignore[attr-defined]
