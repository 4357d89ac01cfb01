"""Does a quorum of real processes go on without its leader, and keep what it acknowledged?

``HEADRACE_QUORUM_KILLS`` sets how often all nodes are killed at once (8; in CI 30).
"""

from __future__ import annotations

import itertools
from contextlib import closing

import pytest

from tests.integration.quorum.conftest import NewCluster
from tests.support.metadata_load import Changer, MetadataLoad
from tests.support.quorum_judge import judge, settle
from tests.support.volumes import volume

KILLS = volume("HEADRACE_QUORUM_KILLS", quick=8, ci=30)
NEVER_MS = str(10 * 60_000)


@pytest.mark.parametrize(("controllers", "dynamic"), [(3, False), (3, True), (5, False)])
def test_a_killed_leader_is_replaced_and_comes_back(new_cluster: NewCluster, controllers: int, dynamic: bool) -> None:
    """fault:S3 B-R22 B-R23 inv:R8: changes go on with another leader, and the old one takes its place again."""
    cluster = new_cluster(controllers=controllers, dynamic=dynamic).start()
    with MetadataLoad(cluster) as load:
        load.wait_for_more(50)
        for _ in range(3):
            leader = cluster.leader()
            leader.kill()
            load.wait_for_more(20)
            assert cluster.leader().node_id != leader.node_id
            cluster.start(leader.node_id)
            load.wait_for_more(20)
    judge(cluster, load.acknowledged)


def test_two_of_five_may_die(new_cluster: NewCluster) -> None:
    """fault:S4 B-R13: a majority is enough, and it is needed."""
    cluster = new_cluster(controllers=5).start()
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        first = cluster.leader()
        first.kill()
        second = cluster.leader(other_than=first.node_id)
        second.kill()
        load.wait_for_more(20)
        third = cluster.leader()
        third.kill()
    with closing(Changer(cluster, next_number=5_000_000)) as changer:
        assert [changer.attempt(timeout_s=0.5) for _ in range(6)] == [None] * 6
        cluster.start(first.node_id, second.node_id, third.node_id)
        changer.change()
    judge(cluster, [*load.acknowledged, *changer.acknowledged])


def test_a_dead_leader_is_noticed_without_the_fetch_timeout(new_cluster: NewCluster) -> None:
    """S1-17: a host that refuses connections tells more than silence. The fetch timeout is never reached here."""
    settings = {"controller.quorum.fetch.timeout.ms": NEVER_MS}
    cluster = new_cluster(controllers=3, properties=settings).start()
    leader = cluster.leader()
    with closing(Changer(cluster)) as changer:
        changer.change()
        leader.kill()
        changer.change()
    assert cluster.leader().node_id != leader.node_id
    cluster.start(leader.node_id)
    judge(cluster, changer.acknowledged)


def test_a_leader_that_is_told_to_stop_hands_over(new_cluster: NewCluster) -> None:
    """B-R08: EndQuorumEpoch names the next leader; nobody waits for a timeout, which is never reached here."""
    settings = {"controller.quorum.fetch.timeout.ms": NEVER_MS}
    cluster = new_cluster(controllers=3, properties=settings).start()
    settle(cluster)
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        for _ in range(3):
            leader = cluster.leader()
            assert leader.stop() in (0, 143)
            load.wait_for_more(20)
            assert cluster.leader().node_id != leader.node_id
            cluster.start(leader.node_id)
            settle(cluster)
    judge(cluster, load.acknowledged)


def test_a_paused_leader_is_replaced_and_follows_when_it_wakes(new_cluster: NewCluster) -> None:
    """fault:S8 B-R16 B-R20: silence costs the fetch timeout; the sleeper adopts the new epoch and acknowledges nothing more."""
    cluster = new_cluster(controllers=3).start()
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        for _ in range(2):
            leader = cluster.leader()
            epoch = cluster.quorum().leader_epoch
            leader.pause()
            load.wait_for_more(20)
            assert cluster.quorum().leader_epoch > epoch
            leader.resume()
            load.wait_for_more(20)
            settle(cluster)
    judge(cluster, load.acknowledged)


def test_nodes_are_restarted_one_after_the_other(new_cluster: NewCluster) -> None:
    """fault:S10 B-R08: a rolling restart under load, twice around."""
    cluster = new_cluster(controllers=3).start()
    with MetadataLoad(cluster) as load:
        for member in (*cluster.controllers, *cluster.controllers):
            load.wait_for_more(20)
            assert member.stop() in (0, 143)
            load.wait_for_more(10)
            cluster.start(member.node_id)
            settle(cluster)
    judge(cluster, load.acknowledged)


def test_all_are_killed_at_once_again_and_again(new_cluster: NewCluster) -> None:
    """fault:S5 B-R14 inv:R10: what was acknowledged was on a majority of disks."""
    cluster = new_cluster(controllers=3).start()
    with MetadataLoad(cluster) as load:
        for _ in range(KILLS):
            load.wait_for_more(10)
            cluster.kill()
            cluster.start()
        load.wait_for_more(10)
    judge(cluster, load.acknowledged)


def test_all_are_stopped_and_started_in_each_order(new_cluster: NewCluster) -> None:
    """S4-16: voters find each other before any log can be read from a leader."""
    cluster = new_cluster(controllers=3, dynamic=True).start()
    with closing(Changer(cluster)) as changer:
        for order in itertools.permutations((1, 2, 3)):
            changer.change()
            cluster.stop()
            for node_id in order:
                cluster.launch(node_id)
            for node_id in order:
                cluster[node_id].wait_until_ready()
            cluster.leader()
        changer.change()
    judge(cluster, changer.acknowledged)
