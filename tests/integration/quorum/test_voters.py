"""Does a quorum of real processes change its voters and their addresses while it works? (KIP-853)"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from headrace.testing.asking import ask_quorum
from headrace.testing.cluster import Cluster
from tests.integration.quorum.conftest import NewCluster
from tests.support.metadata_load import Changer, MetadataLoad, wait_until
from tests.support.quorum_judge import judge, settle
from tests.support.vip import Vip


def end_points(cluster: Cluster) -> dict[int, int]:
    """The controllers' ports as the leader knows them."""
    leader = cluster.leader()
    answer: Any = ask_quorum(leader.place.host, leader.controller_port)
    return {node.node_id: node.listeners[0].port for node in answer.nodes}


def observers(cluster: Cluster) -> set[int]:
    """The observers as the leader sees them."""
    return {each.replica_id for each in cluster.quorum().observers}


def test_one_controller_becomes_three_and_two(new_cluster: NewCluster) -> None:
    """fault:S70 S4-37 S4-39 B-R24 B-R25: grown, shrunk, and the leader moved away by removing it, all under load."""
    cluster = new_cluster(controllers=1, dynamic=True).start()
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        for node_id in (2, 3):
            cluster.add(node_id)
            cluster.start(node_id)
            cluster.add_voter(node_id)
            load.wait_for_more(20)
        assert cluster.voter_ids() == {1, 2, 3}
        other = next(each.node_id for each in cluster.controllers if each.node_id != cluster.leader().node_id)
        cluster.remove_voter(other)
        assert cluster.voter_ids() == {1, 2, 3} - {other}
        load.wait_for_more(20)
        leader = cluster.leader().node_id
        cluster.remove_voter(leader)
        wait_until(lambda: cluster.leader().node_id != leader)
        assert cluster.voter_ids() == {1, 2, 3} - {other, leader}
        load.wait_for_more(20)
        wait_until(lambda: observers(cluster) >= {other, leader})
    judge(cluster, load.acknowledged)


def test_a_voter_comes_back_on_another_port(new_cluster: NewCluster) -> None:
    """fault:S35 S4-15 B-R26: it says its new address, and then may lead."""
    cluster = new_cluster(controllers=3, dynamic=True).start()
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        for node_id in (1, 2, 3):
            member = cluster[node_id]
            member.stop()
            member.move()
            cluster.start(node_id)
            wait_until(lambda node=member: end_points(cluster).get(node.node_id) == node.controller_port)  # type: ignore[misc]
            load.wait_for_more(20)
            settle(cluster)
        leader = cluster.leader()
        leader.kill()
        load.wait_for_more(20)
        cluster.start(leader.node_id)
    judge(cluster, load.acknowledged)


def test_all_addresses_change_at_once_behind_one_that_stays(new_cluster: NewCluster) -> None:
    """S4-17: every controller comes back on a new port; only the bootstrap address, a balancer's, is right."""
    cluster = new_cluster(controllers=3, dynamic=True)
    with Vip(lambda: [(each.place.host, each.controller_port) for each in cluster.controllers]) as vip:
        cluster.bootstrap = f"127.0.0.1:{vip.port}"
        cluster.start()
        with closing(Changer(cluster)) as changer:
            changer.change()
            cluster.stop()
            for member in cluster.controllers:
                member.move()
            cluster.start()
            changer.change()
        wait_until(lambda: end_points(cluster) == {each.node_id: each.controller_port for each in cluster.controllers})
        judge(cluster, changer.acknowledged)


def test_a_node_that_knows_only_a_balancer_joins(new_cluster: NewCluster) -> None:
    """S4-01 S4-23: whom to ask need not be a member, and each connection may reach another one."""
    cluster = new_cluster(controllers=3, dynamic=True).start()
    with (
        Vip(lambda: [("127.0.0.1", cluster[node_id].controller_port) for node_id in (1, 2, 3)]) as vip,
        closing(Changer(cluster)) as changer,
    ):
        changer.change()
        cluster.bootstrap = f"127.0.0.1:{vip.port}"
        cluster.add(4)
        cluster.start(4)
        wait_until(lambda: 4 in observers(cluster))
        cluster.add_voter(4)
        assert cluster.voter_ids() == {1, 2, 3, 4}
        judge(cluster, changer.acknowledged)


def test_new_nodes_find_the_voters_that_replaced_the_first(new_cluster: NewCluster) -> None:
    """S4-18 S4-12: two of three are replaced; a new node with one old address and one new finds the quorum, and an old voter
    whose log still says that it is one founds nothing.
    """
    cluster = new_cluster(controllers=3, dynamic=True).start()
    with MetadataLoad(cluster) as load:
        load.wait_for_more(20)
        cluster[2].stop()
        cluster.add(4)
        cluster.start(4)
        cluster.add_voter(4)
        cluster.remove_voter(2)
        cluster[3].stop()
        cluster.add(5)
        cluster.start(5)
        cluster.add_voter(5)
        cluster.remove_voter(3)
        assert cluster.voter_ids() == {1, 4, 5}
        load.wait_for_more(20)
        cluster.bootstrap = f"127.0.0.1:{cluster[3].controller_port},127.0.0.1:{cluster[5].controller_port}"
        cluster.add(6)
        cluster.start(6)
        wait_until(lambda: 6 in observers(cluster))
        cluster.launch(2)
        wait_until(lambda: 2 in observers(cluster))
        assert cluster.voter_ids() == {1, 4, 5}
        load.wait_for_more(20)
    judge(cluster, load.acknowledged)


def test_a_wrong_list_of_voters_does_no_harm_to_a_dynamic_quorum(new_cluster: NewCluster) -> None:
    """S4-02: the voters are in the log; the list is not read once they are."""
    cluster = new_cluster(controllers=3, dynamic=True).start()
    with closing(Changer(cluster)) as changer:
        changer.change()
        cluster.stop()
        for member in cluster.controllers:
            own = f"{member.node_id}@{member.place.host}:{member.controller_port}"
            member.properties["controller.quorum.voters"] = f"{own},77@127.0.0.1:1,78@127.0.0.1:2"
        cluster.start()
        changer.change()
        assert cluster.voter_ids() == {1, 2, 3}
        judge(cluster, changer.acknowledged)
