"""Brokers of Apache Kafka and of Headrace as replicas of the same partitions, each as leader and as follower of the other."""

from __future__ import annotations

import subprocess

import pytest

from headrace.testing.cluster import Cluster
from tests.peers.quorum import MixedCluster
from tests.support.copies import create, in_sync, leader, read_lines, same_bytes, write_lines

pytestmark = [pytest.mark.java, pytest.mark.kcat]

OURS, OURS_TOO, KAFKAS = 101, 102, 103


def write(cluster: Cluster, lines: list[str], *, partitions: int = 1) -> None:
    """To each partition in turn."""
    for number in range(partitions):
        write_lines(cluster, lines[number::partitions], "-p", str(number))


def test_each_kind_leads_and_follows_the_other() -> None:
    """B-P02 S3-102 S3-103 S3-109 KIP-903: the same bytes on brokers of both kinds, whoever led; leaders of either kind are killed, and come back as followers."""
    lines = [f"line {number}" for number in range(6_000)]
    cluster = MixedCluster(kafkas=(KAFKAS,), controllers=1, brokers=3, properties={"broker.session.timeout.ms": "3000"})
    with cluster:
        create(cluster, "t", [(OURS, KAFKAS, OURS_TOO), (KAFKAS, OURS, OURS_TOO), (OURS_TOO, OURS, KAFKAS)])
        write(cluster, lines[:2_000], partitions=3)
        assert all(same_bytes(cluster, "t"))
        cluster[KAFKAS].kill()
        leader(cluster, "t", 1, other_than=KAFKAS)
        write(cluster, lines[2_000:3_000], partitions=3)
        cluster.start(KAFKAS)
        in_sync(cluster, "t")
        write(cluster, lines[3_000:4_000], partitions=3)
        assert all(same_bytes(cluster, "t"))
        for broker_id in (OURS, OURS_TOO):
            cluster[broker_id].kill()
        assert leader(cluster, "t", 0, other_than=OURS).node_id in (OURS_TOO, KAFKAS)
        for partition in range(3):
            while leader(cluster, "t", partition).node_id != KAFKAS:
                pass
        write(cluster, lines[4_000:5_000], partitions=3)
        cluster.start(OURS, OURS_TOO)
        in_sync(cluster, "t")
        write(cluster, lines[5_000:], partitions=3)
        assert all(same_bytes(cluster, "t"))
        assert read_lines(cluster) == sorted(lines)


@pytest.mark.parametrize("old_leader", [OURS, KAFKAS], ids=["ours cuts", "Kafka's cuts"])
def test_a_copy_of_one_kind_cuts_by_the_epochs_of_the_other(old_leader: int) -> None:
    """KIP-101, KIP-595, inv:P12: who led writes what nobody copies, dies, and follows a leader of the other kind."""
    new_leader = KAFKAS if old_leader == OURS else OURS
    cluster = MixedCluster(kafkas=(KAFKAS,), controllers=1, brokers=3, properties={"broker.session.timeout.ms": "6000"})
    with cluster:
        create(cluster, "t", [(old_leader, new_leader)])
        write(cluster, ["everywhere"])
        assert all(same_bytes(cluster, "t"))
        cluster[new_leader].pause()
        alone = ["kcat", "-b", cluster.bootstrap_servers, "-P", "-t", "t", "-X", "acks=1", "-X", "log_level=0"]
        for line in ("in a response that waits for whoever wakes up", "only here", "and gone"):
            subprocess.run(alone, input=line, text=True, check=True, timeout=60)
        cluster[old_leader].kill()
        cluster[new_leader].resume()
        assert leader(cluster, "t", other_than=old_leader).node_id == new_leader
        write(cluster, ["instead"])
        cluster.start(old_leader)
        in_sync(cluster, "t")
        assert all(same_bytes(cluster, "t"))
        found = read_lines(cluster)
        assert {"everywhere", "instead"} <= set(found)
        assert not {"only here", "and gone"} & set(found)
