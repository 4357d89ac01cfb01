"""Can a test kill, pause, cut off and heal the nodes of its cluster, and is nothing left of it?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from headrace.core.errors import OperatorError
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.roles import until

QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.lag.time.max.ms": "3000",
}


def isr_of(member: Member, topic: str) -> tuple[int, list[int]]:
    """Leader and in-sync replicas of the topic's only partition, as a node has them."""
    found = ask(member.place.host, member.port, MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
    [partition] = found.topics[0].partitions
    return partition.leader_id, sorted(partition.isr_nodes)


def create(member: Member, name: str, *, copies: int = -1) -> list[int]:
    """A topic with as many replicas as the cluster has by default; its error code."""
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=copies)
    answer = ask(
        member.place.host, member.port, CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7, timeout_s=65
    )
    return [each.error_code for each in answer.topics]


def follow(cluster: Cluster, node_ids: list[int], topic: str, isr: list[int]) -> None:
    """Wait until the nodes have it that these are in sync, and that one of them leads."""
    for node_id in node_ids:
        until(lambda member=cluster[node_id]: _is_led_within(member, topic, isr))  # type: ignore[misc]


def _is_led_within(member: Member, topic: str, isr: list[int]) -> bool:
    leader, found = isr_of(member, topic)
    return leader in isr and found == isr


def test_nodes_are_cut_off_and_healed() -> None:
    """B-R16: the controller and leader that nobody hears is replaced on both planes, though clients reach it; heals as one cluster. One way is enough."""
    with Cluster(nodes=3, properties=QUICK) as cluster:
        everyone = sorted(cluster.members)
        assert create(cluster[1], "orders") == [0]
        follow(cluster, everyone, "orders", everyone)
        for is_one_way in (False, True):
            old = cluster.leader()
            others = [each for each in everyone if each != old.node_id]
            cluster.partition(old.node_id, others, one_way=is_one_way)
            assert cluster.unheard(old.node_id) == tuple(others)
            new = cluster.leader(other_than=old.node_id)
            until(lambda node=old: cluster.describe(node.node_id) is None)  # type: ignore[misc]
            follow(cluster, others, "orders", others)
            assert create(new, f"during-{is_one_way}", copies=2) == [0]
            cluster.heal()
            follow(cluster, everyone, "orders", everyone)
            follow(cluster, everyone, f"during-{is_one_way}", others)
            assert len(cluster.quorum().current_voters) == 3


def test_nodes_are_killed_paused_and_restarted(headrace_cluster: Cluster) -> None:
    """The fixture: a killed node comes back and is still cut off as the others are told; a paused one goes on. Topics have three replicas."""
    cluster = headrace_cluster
    everyone = sorted(cluster.members)
    assert create(cluster[1], "orders") == [0]
    killed = cluster.leader().node_id
    others = [each for each in everyone if each != killed]
    cluster.kill(killed)
    assert not cluster[killed].is_running
    [bystander] = [each for each in others if each != cluster.leader().node_id]
    cluster.partition(bystander, killed)
    cluster.restart(killed)
    assert cluster.unheard(killed) == (bystander,)
    cluster.heal()
    follow(cluster, everyone, "orders", everyone)
    paused = cluster.leader().node_id
    cluster.pause(paused)
    assert cluster.leader(other_than=paused).node_id != paused
    cluster.partition(paused, 1 if paused != 1 else 2)  # it does so when it goes on; nobody waits for it
    cluster.heal()
    cluster.resume()
    assert not cluster[paused].is_paused
    follow(cluster, everyone, "orders", everyone)
    with pytest.raises(OperatorError, match=r"there is no node 9: the nodes are 1, 2, 3"):
        cluster.partition(1, 9)


def test_only_nodes_that_can_be_cut_are_cut() -> None:
    """Said before anything is done."""
    cluster = Cluster(controllers=2)
    try:
        with pytest.raises(OperatorError, match=r"node 1 cannot be cut off: call with_cuts"):
            cluster.partition(1, 2)
        for does in (cluster.kill, cluster.stop, cluster.pause, cluster.resume, cluster.restart, cluster.start):
            with pytest.raises(OperatorError, match="there is no node 9: the nodes are 1, 2"):
                does(9)
    finally:
        cluster.end()
    for nodes, brokers in ((3, 2), (-1, 0)):
        with pytest.raises(OperatorError, match=r"controller and broker in one \(nodes=3\), or"):
            Cluster(nodes=nodes, brokers=brokers)


PARENT = """
import sys, time
from pathlib import Path
from headrace.testing import Cluster
cluster = Cluster(nodes=2, directory=Path(sys.argv[1]))
for member in cluster.members.values():
    member.dies_with_me = True
cluster.start()
cluster.pause(2)
print(*(member.pid for member in cluster.members.values()), flush=True)
time.sleep(600)
"""


def test_nothing_outlives_a_killed_parent(tmp_path: Any) -> None:
    """SIGKILL leaves it no last word: the nodes end by themselves, the paused one by the kernel."""
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            pids = [int(word) for word in parent.stdout.readline().split()]
            assert len(pids) == 2
        finally:
            parent.kill()
    ends_at = time.monotonic() + 60
    while any(map(_lives, pids)) and time.monotonic() < ends_at:
        time.sleep(0.02)
    left = [pid for pid in pids if _lives(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
