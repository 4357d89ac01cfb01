"""A broker that is taken out of the register and out of all assignments: what is refused, what is moved, what is lost."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller.events import Answer, ControllerEffect, TimeAdvanced
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import LEADER_RECOVERED, LEADER_RECOVERING, NO_LEADER, PartitionRegistration
from headrace.metadata.versions import ELR_FEATURE
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.unregister_broker import EmptiedTopic, UnregisterBrokerRequest, UnregisterBrokerResponse
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from tests.support.controller import ControllerBench, active, directory, incarnation, registration
from tests.support.partitions import cluster as elr_cluster
from tests.support.partitions import fence, join


def cluster(*broker_ids: int, **settings: Any) -> ControllerBench:
    """An active controller with these brokers, unfenced."""
    bench = active(**settings)
    for broker_id in broker_ids:
        bench.broker(broker_id)
    return bench


def create(name: str, *replicas: tuple[int, ...]) -> CreateTopicsRequest:
    """A topic with these replicas a partition."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=each) for number, each in enumerate(replicas)
    )
    asked = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    return CreateTopicsRequest(topics=(asked,))


def topic(bench: ControllerBench, name: str, *replicas: tuple[int, ...]) -> None:
    """It is there."""
    assert bench.ask(create(name, *replicas)).topics[0].error_code == 0


def move(name: str, *replicas: int) -> AlterPartitionReassignmentsRequest:
    """Partition 0 shall have these replicas; without any, its move is cancelled."""
    asked = ReassignablePartition(partition_index=0, replicas=replicas or None)
    return AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=name, partitions=(asked,)),))


def part(bench: ControllerBench, name: str, number: int = 0) -> PartitionRegistration:
    """A partition as it is committed."""
    found: PartitionRegistration = bench.committed_image.topics.by_name[name].partitions[number]
    return found


def decommission(broker_id: int, *, force: bool = False) -> UnregisterBrokerRequest:
    """The request with our tags."""
    return UnregisterBrokerRequest(broker_id=broker_id, remove_from_assignments=True, force=force)


def test_a_plain_unregistration_leaves_the_assignments_alone() -> None:
    """S1-66, S1-63: as in Kafka the broker leaves the ISR and the register, and stays a replica."""
    bench = cluster(1, 2, 3)
    topic(bench, "t", (3, 1, 2))
    assert bench.ask(UnregisterBrokerRequest(broker_id=3)) == UnregisterBrokerResponse(error_message="")
    assert 3 not in bench.committed_image.cluster.brokers
    found = part(bench, "t")
    assert (found.replicas, found.isr, found.leader) == ((3, 1, 2), (1, 2), 1)


def test_a_decommissioned_broker_is_in_no_list_of_any_partition() -> None:
    """S1-66, D-01: out of replicas, ISR, adding, removing and directories; leaders move; the registration goes last, all in one batch."""
    bench = cluster(1, 2, 3, 4)
    topic(bench, "led", (3, 1, 2))
    topic(bench, "followed", (1, 3))
    topic(bench, "other", (1, 2))
    topic(bench, "from", (1, 3))
    assert bench.ask(move("from", 1, 4)).responses[0].partitions[0].error_code == 0  # removes 3
    topic(bench, "to", (1, 2))
    assert bench.ask(move("to", 1, 3)).responses[0].partitions[0].error_code == 0  # adds 3
    before = len(bench.log)
    assert bench.ask(decommission(3)) == UnregisterBrokerResponse(error_message="")
    records = bench.log[before:]
    assert [type(each) for each in records] == [*[PartitionChangeRecord] * 4, UnregisterBrokerRecord]
    for name in ("led", "followed", "from", "to"):
        found = part(bench, name)
        assert 3 not in {*found.replicas, *found.isr, *found.adding_replicas, *found.removing_replicas, found.leader}
        assert len(found.directories) == len(found.replicas)
        assert directory(3) not in found.directories
        assert found.leader_recovery_state == LEADER_RECOVERED
    led = part(bench, "led")
    assert (led.replicas, led.isr, led.leader) == ((1, 2), (1, 2), 1)
    assert part(bench, "other").partition_epoch == 0
    assert part(bench, "from").adding_replicas == (4,)
    assert bench.machine.heartbeats is not None
    assert sorted(bench.machine.heartbeats.silences_ms(bench.now_ms)) == [1, 2, 4]  # its session is over, too
    assert bench.machine.statistics.unclean_elections == 0


def test_a_reassignment_to_the_broker_is_taken_back() -> None:
    """S1-66: a partition does not end with fewer replicas because the one that it was to get left."""
    bench = cluster(1, 2, 3)
    topic(bench, "to", (1, 2))
    bench.ask(move("to", 1, 3))
    bench.ask(decommission(3))
    assert (part(bench, "to").replicas, part(bench, "to").adding_replicas) == ((1, 2), ())


def test_the_last_replica_of_a_partition_is_not_decommissioned() -> None:
    """S1-70, D-02: code 10001, at most ten partitions by name, and nothing is written."""
    bench = cluster(1, 3)
    topic(bench, "sole", *[(3,)] * 12)
    topic(bench, "safe", (3, 1))
    before = len(bench.log)
    answer = bench.ask(decommission(3))
    assert answer.error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert int(answer.error_code) == 10001
    names = ", ".join(f"sole-{number}" for number in range(10))
    assert answer.error_message.endswith(
        f"required for 12 partition(s), and nobody else is in sync there: {names} and 2 more"
    )
    assert len(bench.log) == before
    assert bench.heartbeat(3, bench.committed_image.cluster.brokers[3].broker_epoch).error_code == 0
    assert bench.ask(create("later", (3,))).topics[0].error_code == 0  # it is not leaving any more


def test_the_last_replica_in_sync_is_not_decommissioned_either() -> None:
    """S1-70: a replica that lags would lose what was acknowledged."""
    bench = cluster(1, 2, 3)
    topic(bench, "safe", *[(3, 2)] * 3)
    topic(bench, "t", (3, 1))
    bench.ask(UnregisterBrokerRequest(broker_id=1))  # 1 is out of the ISR
    bench.broker(1)
    assert part(bench, "t").isr == (3,)
    before = len(bench.log)
    assert bench.ask(decommission(3)).error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert len(bench.log) == before
    answer = bench.ask(decommission(3, force=True))
    assert answer == UnregisterBrokerResponse(
        error_message="", emptied_topics=(EmptiedTopic(name="t", partitions=(0,)),)
    )
    found = part(bench, "t")
    assert (found.replicas, found.isr, found.leader, found.leader_recovery_state) == ((1,), (1,), 1, LEADER_RECOVERING)
    assert bench.machine.statistics.unclean_elections == 1


def test_force_gives_partitions_that_lose_their_only_replica_an_empty_one() -> None:
    """S1-71, D-01: on an active broker, RECOVERING, counted as unclean, and told in the answer."""
    bench = cluster(1, 2, 3)
    bench.broker(4, unfenced=False)
    topic(bench, "sole", *[(3,)] * 4)
    topic(bench, "safe", (3, 1))
    answer = bench.ask(decommission(3, force=True))
    emptied = (EmptiedTopic(name="sole", partitions=(0, 1, 2, 3)),)
    assert answer == UnregisterBrokerResponse(error_message="", emptied_topics=emptied)
    found = [part(bench, "sole", number) for number in range(4)]
    assert [each.replicas for each in found] == [each.isr for each in found]
    assert [each.leader for each in found] == [1, 2, 1, 2]
    assert {each.leader_recovery_state for each in found} == {LEADER_RECOVERING}
    assert [each.directories for each in found] == [(directory(each.leader),) for each in found]
    assert part(bench, "safe").leader_recovery_state == LEADER_RECOVERED
    assert bench.machine.statistics.unclean_elections == 4


def test_force_needs_somebody_who_takes_the_partitions() -> None:
    """S1-71: without another active broker it is refused, and nothing is written."""
    bench = cluster(3)
    topic(bench, "sole", (3,))
    before = len(bench.log)
    answer = bench.ask(decommission(3, force=True))
    assert answer.error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert "no other broker is active" in answer.error_message
    assert len(bench.log) == before


def test_forced_off_with_all_others_down_the_partition_waits_for_one_of_them() -> None:
    """S1-71, C7: the ISR names a replica that is left, and nobody leads until it is back."""
    bench = cluster(1, 2, 3)
    topic(bench, "t", (3, 1))
    bench.ask(UnregisterBrokerRequest(broker_id=1))
    bench.broker(1, unfenced=False)
    bench.ask(decommission(3, force=True))
    found = part(bench, "t")
    assert (found.replicas, found.isr, found.leader) == ((1,), (1,), NO_LEADER)
    bench.heartbeat(1, bench.committed_image.cluster.brokers[1].broker_epoch)
    assert part(bench, "t").leader == 1


@pytest.mark.parametrize(("min_isr", "eligible"), [(1, (1,)), (2, (1, 2))])
def test_with_eligible_replicas_one_that_is_back_leads_what_force_left(min_isr: int, eligible: tuple[int, ...]) -> None:
    """S1-71, C7, C5, KIP-966: nobody is in sync that is fenced; whoever may be eligible leads when it is back, and the partition is marked."""
    bench, epochs = elr_cluster(3, features={ELR_FEATURE: 1}, min_insync_replicas=min_isr)
    topic(bench, "t", (3, 1, 2))
    for broker_id in (1, 2):  # neither stopped cleanly: they are in no ELR
        bench.ask(UnregisterBrokerRequest(broker_id=broker_id))
        epochs[broker_id] = bench.broker(broker_id, unfenced=False)
    assert bench.ask(decommission(3, force=True)).error_code == 0
    found = part(bench, "t")
    assert (found.replicas, found.isr, found.leader) == ((1, 2), (), NO_LEADER)
    assert (found.eligible_leader_replicas, found.leader_recovery_state) == (eligible, LEADER_RECOVERING)
    back = eligible[-1]
    bench.heartbeat(back, epochs[back])
    found = part(bench, "t")
    assert (found.isr, found.leader, found.leader_recovery_state) == ((back,), back, LEADER_RECOVERING)
    assert found.eligible_leader_replicas == eligible[:-1]  # enough in sync, or not


def test_a_fenced_broker_that_is_needed_does_not_lead_because_it_was_asked_for() -> None:
    """S1-70, C7: what has no leader waits on until the broker is unfenced."""
    bench, epochs = elr_cluster(2)
    topic(bench, "t", (2,))
    fence(bench, 2, epochs[2])
    before = len(bench.log)
    assert bench.ask(decommission(2)).error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert (part(bench, "t").leader, len(bench.log)) == (NO_LEADER, before)
    bench.heartbeat(2, epochs[2])
    assert part(bench, "t").leader == 2


def test_a_move_whose_old_replicas_have_all_left_cannot_be_taken_back() -> None:
    """S1-66, CL3: there would be nothing to go back to."""
    bench, epochs = elr_cluster(3)
    topic(bench, "t", (3,))
    bench.ask(move("t", 1, 2))
    assert part(bench, "t").adding_replicas == (1, 2)
    assert join(bench, 3, epochs, (3, 1)).error_code == 0
    assert bench.ask(decommission(3)) == UnregisterBrokerResponse(error_message="")
    found = part(bench, "t")
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((1, 2), (), ())
    assert (found.isr, found.leader) == ((1,), 1)


@pytest.mark.parametrize("force", [False, True])
def test_an_unknown_broker_is_not_decommissioned(force: bool) -> None:
    """S1-69."""
    bench = cluster(1)
    assert bench.ask(decommission(9, force=force)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_registration_after_it_is_a_fresh_broker() -> None:
    """S1-72: another epoch, fenced, and a replica of nothing; heartbeats with the former epoch get 77 (S1-73)."""
    bench = cluster(1, 3)
    topic(bench, "t", (3, 1))
    former = bench.committed_image.cluster.brokers[3].broker_epoch
    bench.ask(decommission(3))
    assert bench.heartbeat(3, former).error_code == ErrorCode.STALE_BROKER_EPOCH
    epoch = bench.ask(registration(3, incarnation_id=incarnation(3))).broker_epoch
    assert epoch > former
    assert bench.committed_image.cluster.brokers[3].fenced
    assert part(bench, "t").replicas == (1,)


def test_very_many_partitions_go_slice_by_slice() -> None:
    """S1-66, B-C22, S2-33: other requests come in between, nobody gives the broker new replicas, and the answer comes with the end."""
    bench = cluster(1, 2, 3)
    bench.machine.slice_size = 10
    topic(bench, "t", *[(3, 1)] * 25)
    topic(bench, "sole", (3,))
    effects = bench.send(decommission(3, force=True)) + bench.commit()
    steps = 0
    while not any(isinstance(each, Answer) for each in effects):
        steps += 1
        assert steps < 20
        refused = bench.ask(create(f"new-{steps}", (3,))).topics[0]
        assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "decommissioned" in refused.error_message
        assert bench.ask(move("t", 3, 2)).responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert (
            bench.ask(registration(3, incarnation_id=incarnation(9))).error_code
            == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        )
        effects = bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))) + bench.commit()
    assert steps == 5  # 26 places to look at and 26 to drop, ten a step
    [answer] = [each.response for each in effects if isinstance(each, Answer)]
    assert answer.emptied_topics == (EmptiedTopic(name="sole", partitions=(0,)),)
    assert all(3 not in part(bench, "t", number).replicas for number in range(25))
    assert 3 not in bench.committed_image.cluster.brokers


def test_what_comes_to_need_the_broker_meanwhile_keeps_it() -> None:
    """S1-70: a reassignment that is cancelled between two slices; it is refused at the end, and the broker stays registered."""
    bench, epochs = elr_cluster(3)
    topic(bench, "t", (3,))
    bench.ask(move("t", 3, 1, 2))
    assert join(bench, 3, epochs, (3, 1)).error_code == 0
    bench.machine.slice_size = 1
    effects = bench.send(decommission(3)) + bench.commit()
    assert not any(isinstance(each, Answer) for each in effects)
    bench.ask(move("t"))
    for _ in range(6):
        effects += bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))) + bench.commit()
    [answer] = [each.response for each in effects if isinstance(each, Answer)]
    assert answer.error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert (part(bench, "t").replicas, part(bench, "t").leader) == ((3,), 3)
    assert 3 in bench.committed_image.cluster.brokers


def looked_at() -> tuple[ControllerBench, list[ControllerEffect]]:
    """A cluster in which it takes some steps to see that broker 3 is needed, in the first of them."""
    bench = cluster(1, 2, 3)
    topic(bench, "pair", (1, 3))
    topic(bench, "sole", (3,))
    topic(bench, "t", *[(1, 2)] * 20)
    bench.machine.slice_size = 5
    effects = bench.send(decommission(3)) + bench.commit()
    assert not any(isinstance(each, Answer) for each in effects)
    return bench, effects


def test_a_broker_leads_as_before_while_it_is_only_looked_at() -> None:
    """PR8, S1-70: asked again and again, each time in vain, it could keep a broker from leading, and all others from being replaced."""
    bench, effects = looked_at()
    bench.machine.slice_size = 50
    fence(bench, 1, bench.committed_image.cluster.brokers[1].broker_epoch)
    assert part(bench, "pair").leader == 3
    for _ in range(3):
        effects += bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))) + bench.commit()
    [answer] = [each.response for each in effects if isinstance(each, Answer)]
    assert answer.error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert (part(bench, "sole").leader, part(bench, "pair").leader) == (3, 3)


def test_nothing_new_is_placed_on_a_broker_that_is_looked_at() -> None:
    """S1-66: it would be missed, and the broker go with a replica."""
    bench, _ = looked_at()
    assert bench.ask(create("other", (3,))).topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    spread = CreatableTopic(name="spread", num_partitions=6, replication_factor=1)
    assert bench.ask(CreateTopicsRequest(topics=(spread,))).topics[0].error_code == 0
    assert {part(bench, "spread", number).leader for number in range(6)} == {1, 2}
    assert bench.ask(decommission(3)).error_code == ErrorCode.REQUEST_TIMED_OUT
    again = bench.ask(registration(3, incarnation_id=incarnation(9)))
    assert again.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize("is_back", [True, False])
def test_an_eligible_leader_replica_is_as_good_as_one_in_sync(is_back: bool) -> None:
    """S1-70, S1-66, KIP-966: it has all that was acknowledged, so that the last one in sync may go; it leads now, or when it is back, without loss."""
    bench, epochs = elr_cluster(3, features={ELR_FEATURE: 1}, min_insync_replicas=2)
    topic(bench, "t", (3, 2))
    fence(bench, 2, epochs[2])
    assert (part(bench, "t").isr, part(bench, "t").eligible_leader_replicas) == ((3,), (2,))
    if is_back:
        bench.heartbeat(2, epochs[2])
    assert bench.ask(decommission(3)) == UnregisterBrokerResponse(error_message="")
    bench.heartbeat(2, epochs[2])
    found = part(bench, "t")
    assert (found.replicas, found.isr, found.leader) == ((2,), (2,), 2)
    assert (found.eligible_leader_replicas, found.last_known_elr) == ((), ())
    assert found.leader_recovery_state == LEADER_RECOVERED
    assert bench.machine.statistics.unclean_elections == 0
