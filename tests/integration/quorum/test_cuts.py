"""Does a quorum of real processes keep one leader when links between them are cut? Each node has a network namespace of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.integration.quorum.conftest import NewCluster
from tests.support.metadata_load import MetadataLoad, wait_until
from tests.support.namespaces import Network, missing
from tests.support.quorum_judge import judge, settle

FETCH_TIMEOUT_MS = 600
SETTINGS = {"controller.quorum.fetch.timeout.ms": str(FETCH_TIMEOUT_MS)}
SPARING_S, SEVERAL_TIMEOUTS = 0.03, 100
"""So long between two changes, and so many of them: five fetch timeouts pass at least, and the cluster has little to do meanwhile."""


@pytest.fixture
def can_have_namespaces() -> None:
    """On a machine that cannot have them the tests are skipped, or fail where skips are forbidden."""
    lacking = missing()
    if lacking:
        say = pytest.fail if os.environ.get("HEADRACE_NO_SKIP") == "1" else pytest.skip
        say(f"network namespaces need {lacking}")


@pytest.fixture
def network(can_have_namespaces: None) -> Iterator[Network]:
    """Five namespaces."""
    with Network(range(1, 6)) as built:
        yield built


@pytest.fixture
def apart(new_cluster: NewCluster, network: Network) -> Callable[..., Cluster]:
    """Makes a started cluster whose node n runs in namespace n."""

    def make(controllers: int, **settings: Any) -> Cluster:
        cluster = new_cluster(controllers=controllers, properties=SETTINGS, **settings)
        for member in cluster.controllers:
            member.place = network.place(member.node_id)
        return cluster.start()

    return make


def others(cluster: Cluster, *node_ids: int) -> list[Member]:
    """The controllers but these."""
    return [each for each in cluster.controllers if each.node_id not in node_ids]


def test_a_leader_cut_off_is_replaced_and_steps_down(apart: Callable[..., Cluster], network: Network) -> None:
    """B-R16 fault:S24: who cannot reach a majority stops to lead, whether clients reach it or not."""
    cluster = apart(3)
    with MetadataLoad(cluster) as load:
        for _ in range(2):
            load.wait_for_more(20)
            old = cluster.leader()
            network.isolate(old.node_id)
            load.wait_for_more(20)
            wait_until(lambda node=old: cluster.describe(node.node_id) is None)  # type: ignore[misc]
            assert cluster.leader().node_id != old.node_id
            network.heal()
            settle(cluster)
    judge(cluster, load.acknowledged)


def test_a_leader_whose_link_is_down_is_replaced(apart: Callable[..., Cluster], network: Network) -> None:
    """fault:S20: the link goes, and comes back."""
    cluster = apart(3)
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        old = cluster.leader()
        network.unplug(old.node_id)
        load.wait_for_more(20)
        network.plug(old.node_id)
        settle(cluster)
    judge(cluster, load.acknowledged)


def test_a_follower_that_hears_nothing_does_not_disturb(apart: Callable[..., Cluster], network: Network) -> None:
    """B-R27 fault:S26: cut from the leader one way, it asks in advance and is refused; leader and epoch stay."""
    cluster = apart(3)
    with MetadataLoad(cluster, pause_s=SPARING_S) as load:
        load.wait_for_more(20)
        before = settle(cluster)
        follower = others(cluster, before.leader_id)[0]
        network.cut(before.leader_id, follower.node_id)
        load.wait_for_more(SEVERAL_TIMEOUTS)
        network.heal()
        network.cut(follower.node_id, before.leader_id)
        load.wait_for_more(SEVERAL_TIMEOUTS)
        network.heal()
        network.isolate(follower.node_id)
        load.wait_for_more(SEVERAL_TIMEOUTS)
        network.heal()
        after = settle(cluster)
        assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)
    judge(cluster, load.acknowledged)


def test_a_leader_that_is_not_heard_is_replaced(apart: Callable[..., Cluster], network: Network) -> None:
    """B-R16 fault:S26: it hears the others and they do not hear it."""
    cluster = apart(3)
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        old = cluster.leader()
        for other in others(cluster, old.node_id):
            network.cut(old.node_id, other.node_id)
        load.wait_for_more(20)
        assert cluster.leader().node_id != old.node_id
        network.heal()
        settle(cluster)
    judge(cluster, load.acknowledged)


def test_the_greater_part_of_five_goes_on(apart: Callable[..., Cluster], network: Network) -> None:
    """B-R13 fault:S25: the leader is in the smaller part; nothing is acknowledged there."""
    cluster = apart(5)
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        old = cluster.leader()
        friend, *rest = others(cluster, old.node_id)
        for minority in (old, friend):
            for other in rest:
                network.cut_both(minority.node_id, other.node_id)
        load.wait_for_more(20)
        assert cluster.quorum().leader_id in {each.node_id for each in rest}
        network.heal()
        settle(cluster)
    judge(cluster, load.acknowledged)


def test_a_node_that_starts_cut_off_does_no_harm(apart: Callable[..., Cluster], network: Network) -> None:
    """S4-38 B-R27: it founds nothing, its epoch does not run away, and it joins when it is reached."""
    cluster = apart(3)
    with MetadataLoad(cluster, pause_s=SPARING_S) as load:
        load.wait_for_more(20)
        before = settle(cluster)
        lonely = others(cluster, before.leader_id)[0]
        lonely.stop()
        network.isolate(lonely.node_id)
        cluster.launch(lonely.node_id)
        wait_until(lonely.is_listening)
        load.wait_for_more(SEVERAL_TIMEOUTS)
        network.heal()
        after = settle(cluster)
        assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)
    judge(cluster, load.acknowledged)


@pytest.mark.usefixtures("can_have_namespaces")
def test_namespaces_leave_nothing_behind() -> None:
    """What the tests build on the machine is gone after them."""
    with Network(range(1, 3)) as built:
        name = built.place(1).prefix[-1]
        assert Path("/run/netns", name).exists()
    assert not Path("/run/netns", name).exists()
