"""Brokers that die in one process with the active controller, or with all of them: nobody is left on whose connection their end could be seen."""

from __future__ import annotations

from headrace.testing.cluster import Cluster
from tests.support.copies import create, in_sync, leader

SESSIONS_THAT_DO_NOT_END = {
    "broker.session.timeout.ms": "600000",
    "broker.heartbeat.timeout.ms": "900000",
    "offsets.topic.replication.factor": "3",
    "controlled.shutdown.enable": "false",
}
"""All nodes stop together in the end: who stops last has nobody to ask, and would wait for a session."""


def test_a_leader_that_dies_with_the_active_controller_is_replaced_before_its_session_ends() -> None:
    """S1-32, fault:S1, fault:S3, inv:C14: the next controller had reached its listener as a standby, and now it refuses."""
    with Cluster(controllers=3, combined=True, properties=SESSIONS_THAT_DO_NOT_END) as cluster:
        active = cluster.leader()
        others = [each.node_id for each in cluster.brokers if each is not active]
        create(cluster, "t", [(active.node_id, *others)], min_insync_replicas="2")
        in_sync(cluster, "t")
        active.kill()
        assert leader(cluster, "t", other_than=active.node_id).node_id in others
        cluster.start(active.node_id)
        in_sync(cluster, "t")


def test_a_cluster_that_was_killed_comes_back_before_sessions_end() -> None:
    """S1-29, S4-16, fault:S5: the new controllers never reached the brokers before, whose own log says that they live; each comes with its directories."""
    with Cluster(controllers=3, combined=True, properties=SESSIONS_THAT_DO_NOT_END) as cluster:
        create(cluster, "t", [(1, 2, 3)], min_insync_replicas="2")
        in_sync(cluster, "t")
        cluster.kill()
        cluster.start()
        in_sync(cluster, "t")
