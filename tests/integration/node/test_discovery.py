"""Do nodes of a dynamic quorum find its leader by whatever address they were told?"""

from __future__ import annotations

from typing import Any

from headrace.testing.asking import ask, ask_quorum
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member, lasting_ports
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.support.roles import controllers_of, create, topics_of, unfenced, until

BOOTSTRAP = "controller.quorum.bootstrap.servers"


def end_points(member: Member) -> dict[int, set[int]]:
    """Controller id -> its ports, as DescribeQuorum tells (version 2)."""
    answer: Any = ask_quorum(member.place.host, member.controller_port)
    return {each.node_id: {listener.port for listener in each.listeners} for each in answer.nodes}


def test_one_right_address_among_dead_ones_is_enough() -> None:
    """S4-20, S4-26, S4-28, S4-29, S4-31: a new broker knows nothing and asks one bootstrap server after the other; a follower names the leader."""
    with Cluster(controllers=3, dynamic=True) as cluster:
        leader = cluster.leader()
        follower = next(each for each in cluster.controllers if each.node_id != leader.node_id)
        broker = cluster.add(101, {"broker"})
        dead = [f"127.0.0.1:{port}" for port in lasting_ports(2)]
        broker.properties[BOOTSTRAP] = ",".join([*dead, f"127.0.0.1:{follower.controller_port}"])
        cluster.start(101)
        assert create(broker, "found") == [0]
        leader.kill()
        assert create(broker, "found-again") == [0]
        broker.kill()
        cluster.start(101)
        until(lambda: {"found", "found-again"} <= topics_of(broker))


def test_a_controller_that_founds_nothing_follows_as_an_observer() -> None:
    """S4-21, S4-32, S4-33, B-C19: formatted without initial controllers it never votes, yet registers and announces its address."""
    with Cluster(controllers=1, dynamic=True) as cluster:
        [voter] = cluster.controllers
        observer = cluster.add(2)
        cluster.start(2)
        ports = {1: voter.controller_port, 2: observer.controller_port}
        until(lambda: controllers_of(voter) == ports)
        until(lambda: controllers_of(observer) == ports)
        quorum = cluster.quorum()
        assert [each.replica_id for each in quorum.current_voters] == [1]
        assert [each.replica_id for each in quorum.observers] == [2]
        assert end_points(voter)[1] == {voter.controller_port}


def test_a_broker_outlives_all_the_controllers_it_first_knew() -> None:
    """S4-18, S4-37, B-K11: voters 1 to 3 are replaced by 4 to 6 while the broker runs; it follows the ones that are there."""
    with Cluster(controllers=3, brokers=1, dynamic=True) as cluster:
        [broker] = cluster.brokers
        for old, new in ((1, 4), (2, 5), (3, 6)):
            cluster.add(new)
            cluster.start(new)
            cluster.add_voter(new)
            cluster.remove_voter(old)
            cluster[old].stop()
            assert create(broker, f"with-{new}") == [0]
        assert cluster.voter_ids() == {4, 5, 6}
        assert unfenced(broker) == {101}


def test_what_a_controller_serves_is_what_it_tells() -> None:
    """B-C29: the APIs of Kafka's controllers that are built, with their versions; Metadata (3) is for brokers only."""
    with Cluster(controllers=1) as cluster:
        [controller] = cluster.controllers
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer: Any = ask(controller.place.host, controller.controller_port, request, 4)
        told = {each.api_key for each in answer.api_keys}
        assert told >= {1, 18, 19, 20, 32, 33, 37, 43, 44, 45, 46, *range(52, 61), 62, 63, 64, 67, 70, 73, 80, 81, 82}
        assert told.isdisjoint({0, 2, 3, 7, 8, 9, 10})
