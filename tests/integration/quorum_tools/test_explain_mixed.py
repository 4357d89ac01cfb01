"""Is a quorum explained in which one controller is Apache Kafka's, which tells less?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.peers.quorum import MixedCluster
from tests.support.commands import headrace

pytestmark = pytest.mark.java

PATIENCE_S = 60.0


def explained(cluster: MixedCluster, is_wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        asked = ["--bootstrap-controller", cluster.bootstrap_controllers, "explain", "--json", "--timeout-ms", "2000"]
        found = json.loads(headrace("quorum", *asked).out)
        if is_wanted(found):
            return found
        assert time.monotonic() < deadline, json.dumps(found, indent=1)
        time.sleep(0.5)


def test_a_kafka_in_the_quorum_is_counted_whether_it_leads_or_not() -> None:
    """S4-51: healthy under a leader of either kind; without a majority both kinds of absence are told."""
    with MixedCluster(kafkas=[2], controllers=3) as cluster:
        kinds = set()
        for _ in range(6):
            leader = cluster.leader()
            kinds.add(leader.node_id == 2)
            healthy = explained(cluster, lambda found: found["state"] == "healthy")
            assert f"Node {leader.node_id} leads" in healthy["summary"] or cluster.leader() is not leader
            assert any("not a Headrace node" in line for line in healthy["nodes"])
            if kinds == {True, False}:
                break
            leader.stop()
            cluster.leader(other_than=leader.node_id)
            cluster.start(leader.node_id)
        assert kinds == {True, False}
        cluster.kill(1, 2)
        found = explained(cluster, lambda found: found["state"] == "leaderless" and bool(found["causes"]))
        found = explained(cluster, lambda found: found["causes"][0]["kind"] == "majority-down")
        assert found["causes"][0]["nodes"] == [1, 2]
