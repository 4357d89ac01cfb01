"""Throttled replication on real brokers, of Apache Kafka's and of Headrace's, by Kafka's own tool (KIP-73)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.testing.cluster import Cluster
from tests.peers import kafka
from tests.peers.quorum import MixedCluster
from tests.support.copies import BROKER, DELETE, SET, alter, create, fill, in_sync, log_bytes, partitions, same_bytes
from tests.support.roles import until

OURS, KAFKAS = 101, 102
FAST = {"replica.fetch.wait.max.ms": "100", "replica.fetch.max.bytes": "100000"}


@pytest.mark.java
@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("leads", [OURS, KAFKAS], ids=["ours leads", "Kafka's leads"])
def test_a_throttle_slows_a_copy_that_is_behind(leads: int, role: str) -> None:
    """B-P09 KIP-73: by the leader's rate or the follower's; a replica that was away takes a little of what it missed, and all when the rate is lifted."""
    follows = KAFKAS if leads == OURS else OURS
    cluster = MixedCluster(kafkas=(KAFKAS,), controllers=1, brokers=2, properties=FAST)
    throttled = {f"{role}_replication_throttled_replicas": "*"}
    rate = {f"{role}_replication_throttled_rate": "1000"}
    slow = leads if role == "leader" else follows
    with cluster:
        create(cluster, "t", [(leads, follows)], **throttled)
        fill(cluster[leads], "t", batches=1)
        same_bytes(cluster, "t")
        alter(cluster[slow], BROKER, str(slow), SET, **rate)
        cluster[follows].kill()
        until(lambda: len(partitions(cluster[leads], "t")[0].isr_nodes) == 1 or None)
        fill(cluster[leads], "t", batches=100)
        whole = len(log_bytes(cluster[leads], "t", 0))
        before = len(log_bytes(cluster[follows], "t", 0))
        cluster.start(follows)
        until(lambda: len(log_bytes(cluster[follows], "t", 0)) > before or None)
        assert before < len(log_bytes(cluster[follows], "t", 0)) < whole // 2
        assert [each.isr_nodes for each in partitions(cluster[leads], "t")] == [(leads,)]
        alter(cluster[slow], BROKER, str(slow), DELETE, **dict.fromkeys(rate, ""))
        in_sync(cluster, "t")
        assert all(same_bytes(cluster, "t"))


@pytest.mark.java
def test_kafkas_tool_moves_a_partition_under_a_throttle(tmp_path: Path) -> None:
    """B-P09 S3-76 KIP-73: `--throttle` sets rates and lists, which the brokers show and obey; `--verify` takes them away when the move is over."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [103, 102]}]}))
    with Cluster(controllers=1, brokers=3, properties=FAST).with_metrics() as cluster:
        create(cluster, "t", [(101, 102)])
        fill(cluster[101], "t", batches=20)
        tool = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))
        kafka.run_tool("kafka-reassign-partitions", *tool, "--execute", "--throttle", "1000", check=True)
        rates = ("kafka_server_leaderreplication_byte_rate", "kafka_server_followerreplication_byte_rate")
        until(lambda: cluster[101].metrics().get(rates[0], 0) > 1_000 or None)
        until(lambda: cluster[103].metrics().get(rates[1], 0) > 1_000 or None)
        under_way = kafka.run_tool("kafka-reassign-partitions", *tool, "--verify", check=True).stdout
        assert "is still in progress" in under_way
        assert set(partitions(cluster[101], "t")[0].isr_nodes) == {101, 102}
        kafka.run_tool(
            "kafka-reassign-partitions", *tool, "--execute", "--additional", "--throttle", "1000000000", check=True
        )
        until(lambda: set(partitions(cluster[101], "t")[0].isr_nodes) == {102, 103} or None)
        over = kafka.run_tool("kafka-reassign-partitions", *tool, "--verify", check=True).stdout
        assert "is completed" in over
        assert "Clearing broker-level throttles" in over
        assert "Clearing topic-level throttles on topic t" in over
