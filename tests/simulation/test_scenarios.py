"""What happens to a cluster when this or that breaks? Scenarios on simulated time, as a user would write them (see docs/simulation.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.errors import OperatorError, PeerError
from headrace.sim.faults import FaultKind, nodes_hit
from headrace.sim.scenario import Simulation

Make = Callable[..., Simulation]


def test_topics_and_settings_survive_a_rack(headrace_simulation: Make) -> None:
    """fault:S50: a rack with a controller and a broker goes away; nothing acknowledged is lost, leaders move."""
    cluster = headrace_simulation(controllers=3, brokers=3, racks=3, seed=7)
    cluster.create_topic("orders", partitions=6, replication_factor=3, settings={"retention.ms": "86400000"})
    gone = set(cluster.nodes_of("rack-1"))
    cluster.power_off_rack("rack-1")
    cluster.run_for(30)
    assert cluster.leader_id not in gone
    assert cluster.topic_settings("orders")["retention.ms"] == "86400000"
    assert {leader for leader in cluster.leaders("orders").values()} == {
        node for node in (101, 102, 103) if node not in gone
    }
    cluster.alter_topic("orders", {"retention.ms": "1000"})
    cluster.heal()
    cluster.run_until(cluster.is_ready, within=60)
    cluster.run_for(5)
    for node_id in (101, 102, 103):
        assert cluster.topic_settings("orders", node_id=node_id)["retention.ms"] == "1000"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_new_controller_leads_within_seconds(headrace_simulation: Make, seed: int) -> None:
    """fault:S3: kill -9 of the active controller: metadata changes are taken again within 5 simulated seconds."""
    cluster = headrace_simulation(controllers=3, brokers=1, seed=seed)
    killed = cluster.leader_id
    cluster.kill(killed)
    began = cluster.now
    cluster.create_topic("after", partitions=1)
    assert cluster.now - began < 5
    assert cluster.leader_id != killed


def test_a_minority_of_controllers_acknowledges_nothing(headrace_simulation: Make) -> None:
    """fault:S4 fault:S25: with two of three controllers dark no change is acknowledged; when they are back it goes on."""
    cluster = headrace_simulation(controllers=3, brokers=1, seed=4)
    cluster.power_off(*[node_id for node_id in (1, 2, 3) if node_id != cluster.leader_id])
    cluster.run_for(10)
    with pytest.raises(PeerError):
        cluster.create_topic("never", partitions=1)
    cluster.heal()
    cluster.run_until(cluster.is_ready, within=60)
    cluster.create_topic("again", partitions=1)
    assert cluster.leaders("again") == {0: 101}


def test_a_cut_off_leader_is_replaced_and_comes_back_as_a_follower(headrace_simulation: Make) -> None:
    """fault:S24 inv:R14: the active controller is cut from the other voters only; it resigns, another one leads."""
    cluster = headrace_simulation(controllers=3, brokers=1, seed=5)
    old = cluster.leader_id
    for other in {1, 2, 3} - {old}:
        cluster.cut(old, other)
    cluster.run_for(10)
    assert cluster.leader_id != old
    cluster.create_topic("meanwhile", partitions=1)
    cluster.heal()
    cluster.run_for(5)
    assert cluster.image(old).topics.by_name.get("meanwhile") is not None


@pytest.mark.parametrize("kind", list(FaultKind))
def test_every_fault_happens_to_as_many_nodes_as_it_names(headrace_simulation: Make, kind: FaultKind) -> None:
    """With one node fewer it is refused at once, with the ids that it needs it happens and the cluster goes on."""
    cluster = headrace_simulation(controllers=3, seed=6)
    needed = nodes_hit(kind)
    if needed:
        with pytest.raises(OperatorError, match=f"needs {needed} node ids, not {needed - 1}"):
            cluster.let_happen(kind, *range(1, needed))
    cluster.let_happen(kind.value, *range(1, needed + 1), seconds=0.5, amount=5)
    cluster.run_for(1)
    assert f"fault: {kind.value}" in cluster.cluster.markers.counts


def test_a_fault_that_does_not_exist_is_refused(headrace_simulation: Make) -> None:
    """And so is one that is to hit a node that does not."""
    cluster = headrace_simulation(controllers=1, seed=7)
    with pytest.raises(OperatorError, match="there is no fault 'earthquake': there are kill"):
        cluster.let_happen("earthquake", 1)
    with pytest.raises(OperatorError, match="there is no node 9"):
        cluster.let_happen("kill", 9)


def test_the_same_seed_gives_the_same_simulated_minutes() -> None:
    """One seed, one run: time, chance and order follow from the seed."""

    def digest(seed: int) -> str:
        with Simulation(controllers=3, brokers=2, seed=seed) as cluster:
            cluster.create_topic("one", partitions=3, replication_factor=2)
            cluster.let_happen("blackout", 1, seconds=2)
            cluster.run_for(20)
            return cluster.cluster.trace.digest()

    assert digest(11) == digest(11)
    assert digest(11) != digest(12)
