"""Does a broker know how old its metadata are, and that it is alone, while it is cut off and after?"""

from __future__ import annotations

from collections.abc import Callable

from headrace.node.metadata_progress import MetadataProgress
from headrace.sim.scenario import Simulation

Make = Callable[..., Simulation]


def progress_of(cluster: Simulation, node_id: int) -> MetadataProgress:
    """How far a node says that it is."""
    machine = cluster.cluster.nodes[node_id].machine
    assert machine is not None, "the node is up"
    return machine.metadata_progress


def test_a_cut_off_broker_sees_its_metadata_grow_old(headrace_simulation: Make) -> None:
    """S4-56, fault:S24: less than a second on an idle cluster, as long as the cut in it, and young again after it."""
    cluster = headrace_simulation(controllers=3, brokers=2, seed=11)
    cut, served = progress_of(cluster, 101), progress_of(cluster, 102)
    for _ in range(5):
        cluster.run_for(1)
        assert cut.last_applied_record_lag_ms < 1_000
    for controller in (1, 2, 3):
        cluster.cut(101, controller)
    cluster.run_for(1)
    stands_at = cut.last_applied_record_offset
    ages = []
    for _ in range(10):
        cluster.run_for(1)
        ages.append(cut.last_applied_record_lag_ms)
    assert ages == sorted(ages)
    assert ages[-1] - ages[0] == 9_000
    assert cut.last_applied_record_offset == stands_at < served.last_applied_record_offset
    assert served.last_applied_record_lag_ms < 1_000
    cluster.heal()
    cluster.run_for(10)
    assert cut.last_applied_record_lag_ms < 1_000
    assert cut.last_applied_record_offset > stands_at


def test_a_cut_off_broker_knows_that_it_is_alone(headrace_simulation: Make) -> None:
    """S0-15, S0-17, S4-57, fault:S24: from broker.heartbeat.timeout.ms on, until it has contact again; the served one never."""
    cluster = headrace_simulation(controllers=3, brokers=2, seed=12)
    machines = [cluster.cluster.nodes[node_id].machine for node_id in (101, 102)]
    cut, served = (machine.self_fencing for machine in machines if machine is not None)
    assert cut is not None
    assert served is not None
    cluster.run_for(30)
    seen = [(cut.is_alone, served.is_alone)]
    for controller in (1, 2, 3):
        cluster.cut(101, controller)
    cluster.run_for(9)
    seen.append((cut.is_alone, served.is_alone))
    cluster.run_for(6)
    seen.append((cut.is_alone, served.is_alone))
    cluster.heal()
    cluster.run_for(10)
    seen.append((cut.is_alone, served.is_alone))
    assert seen == [(False, False), (False, False), (True, False), (False, False)]
