"""Does leadership go back to the preferred replica by itself, after a restart and after a move?"""

from __future__ import annotations

import json
from pathlib import Path

from headrace.testing.cluster import Cluster
from tests.support.commands import headrace
from tests.support.copies import create, partitions
from tests.support.roles import until

PROPERTIES = {"leader.imbalance.check.interval.seconds": "1", "replica.fetch.wait.max.ms": "100"}


def leader(cluster: Cluster, at: int) -> int:
    found: int = partitions(cluster[at], "t")[0].leader_id
    return found


def reassign(cluster: Cluster, path: Path, replicas: tuple[int, ...]) -> None:
    path.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": replicas}]}))
    arguments = ["--execute", "--reassignment-json-file", str(path), "--wait-ms", "60000"]
    done = headrace("reassign-partitions", "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    assert done.code == 0, done


def test_leaders_go_back_to_preferred_replicas(tmp_path: Path) -> None:
    """S3-89: after a restart, and PreferredReplicaImbalanceCount is 0 again. S3-97: after a move that left another one leading. S3-98: who goes deletes its log."""
    cluster = Cluster(controllers=1, brokers=2, properties=PROPERTIES).with_metrics()
    imbalance = "kafka_controller_kafkacontroller_preferredreplicaimbalancecount"
    with cluster:
        create(cluster, "t", [(101, 102)])
        cluster.stop(101)
        until(lambda: leader(cluster, 102) == 102 or None)
        assert cluster[1].metrics()[imbalance] == 1
        cluster.start(101)
        until(lambda: leader(cluster, 102) == 101 or None)
        until(lambda: cluster[1].metrics()[imbalance] == 0 or None)
        reassign(cluster, tmp_path / "order.json", (102, 101))
        until(lambda: leader(cluster, 102) == 102 or None)
        until(lambda: cluster[1].metrics()[imbalance] == 0 or None)
        reassign(cluster, tmp_path / "away.json", (101,))
        assert leader(cluster, 101) == 101
        assert not list(cluster[102].data.glob("t-0"))
