"""Who is assigned, in sync and leading, as the active controller decides and keeps it, through moves, elections and absences?"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from headrace.broker.topic_listing import alive_end_points
from headrace.controller.events import Answer, AppendRecords
from headrace.core.error_code import ErrorCode
from headrace.metadata.compare import compare_images
from headrace.metadata.image import NO_LEADER
from headrace.metadata.loader import MetadataLoader
from headrace.metadata.snapshot import image_records, snapshot_content
from headrace.wire.messages import alter_partition_reassignments as moving
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.frame import decode_record
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from tests.support.controller import ControllerBench, incarnation, registration
from tests.support.partitions import cluster, fence, join, partition, topic

SESSION_MS = 9_000
CHANGES = 300


def reassign(bench: ControllerBench, target: tuple[int, ...] | None) -> int:
    """The error of a reassignment of t-0."""
    part = moving.ReassignablePartition(partition_index=0, replicas=target)
    named = moving.ReassignableTopic(name="t", partitions=(part,))
    code: int = (
        bench.ask(moving.AlterPartitionReassignmentsRequest(topics=(named,))).responses[0].partitions[0].error_code
    )
    return code


def flap(bench: ControllerBench, epochs: dict[int, int], times: int) -> None:
    """Broker 2 leaves the ISR of t-0 and comes back, so many times."""
    for _ in range(times):
        join(bench, 1, epochs, (1,))
        join(bench, 1, epochs, (1, 2))


def test_who_is_live_has_an_address_and_a_session() -> None:
    """S3-11: unfenced registrations with their end points; whoever is silent for a session is none of them any more, and comes back with a heartbeat."""
    bench, epochs = cluster(2)

    def live() -> dict[int, tuple[str, int]]:
        found = alive_end_points(bench.committed_image, "PLAINTEXT")
        return {broker_id: (each.host, each.port) for broker_id, each in found.items()}

    assert live() == {1: ("h", 9093), 2: ("h", 9094)}
    bench.advance(SESSION_MS // 2)
    bench.heartbeat(2, epochs[2])
    bench.advance(SESSION_MS // 2 + 1)
    bench.commit()
    assert live() == {2: ("h", 9094)}
    bench.heartbeat(1, epochs[1])
    assert live() == {1: ("h", 9093), 2: ("h", 9094)}


def test_a_partition_is_its_replicas_in_their_order_its_leader_and_who_is_in_sync() -> None:
    """S3-12, S3-13, S3-14: the first replica is preferred; without a live one in sync nobody leads; the ISR has the partition's epoch."""
    bench, epochs = cluster(3)
    topic(bench, (2, 3, 1))
    first = partition(bench)
    assert (first.replicas, first.leader, first.isr, first.partition_epoch) == ((2, 3, 1), 2, (2, 3, 1), 0)
    join(bench, 2, epochs, (2, 1))
    assert (partition(bench).isr, partition(bench).partition_epoch) == ((2, 1), 1)
    for broker_id in (2, 1):
        fence(bench, broker_id, epochs[broker_id])
    last = partition(bench)
    assert (last.replicas, last.leader, last.isr) == ((2, 3, 1), NO_LEADER, (1,))


def test_a_registration_outlives_its_process_and_goes_by_command_alone() -> None:
    """S3-16: through restarts, long absence, another controller and a snapshot; until UnregisterBroker."""
    bench, _ = cluster(2)
    bench.ask(registration(1, incarnation_id=incarnation(99)))
    bench.advance(10 * SESSION_MS)
    bench.commit()
    assert {each: one.fenced for each, one in bench.committed_image.cluster.brokers.items()} == {1: True, 2: True}
    successor = ControllerBench(image=bench.committed_image)
    successor.epoch = 2
    successor.gain(next_offset=bench.next_offset + 1)
    records = [decode_record(data) for data in snapshot_content(successor.committed_image)]
    assert sorted(each.broker_id for each in records if isinstance(each, RegisterBrokerRecord)) == [1, 2]
    assert successor.ask(UnregisterBrokerRequest(broker_id=1)).error_code == 0
    assert set(successor.committed_image.cluster.brokers) == {2}


def test_assigned_replicas_are_those_in_sync_and_those_that_catch_up_at_every_step_of_a_move() -> None:
    """S3-18, S3-15: the ISR is within the replicas, which are the target and those that are to go, until the target alone is left; the move is kept until then."""
    bench, epochs = cluster(4)
    topic(bench, (1, 2))
    steps: list[tuple[Callable[[], Any], tuple[int, ...]]] = [
        (lambda: reassign(bench, (3, 4)), (3, 4)),
        (lambda: join(bench, 1, epochs, (1, 2, 3)), (3, 4)),
        (lambda: fence(bench, 1, epochs[1]), (3, 4)),
        (lambda: reassign(bench, (2, 4)), (2, 4)),
        (lambda: join(bench, partition(bench).leader, epochs, (2, 4)), (2, 4)),
    ]
    for number, (step, target) in enumerate(steps):
        step()
        now = partition(bench)
        assert set(now.isr) <= set(now.replicas)
        assert tuple(each for each in now.replicas if each not in now.removing_replicas) == target
        assert set(now.adding_replicas) <= set(target)
        is_over = number == len(steps) - 1
        assert (not now.adding_replicas and not now.removing_replicas) is is_over
        assert len(now.replicas) == 2 or not is_over


def test_an_election_waits_for_nothing() -> None:
    """S3-27, S3-02: who leads next is decided with the fence itself; and an election that somebody asks for has no effect once its time is up."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2, 3))
    asked = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset - 1, want_fence=True
    )
    [append] = [each for each in bench.send(asked) if isinstance(each, AppendRecords)]
    records = [decode_record(data) for data in append.records]
    assert [type(each) for each in records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert isinstance(records[0], PartitionChangeRecord)
    assert (records[0].leader, records[0].isr) == (2, (2, 3))
    bench.commit()
    bench.heartbeat(1, epochs[1])
    join(bench, 2, epochs, (2, 3, 1))
    elect = ElectLeadersRequest(
        election_type=0, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),), timeout_ms=1
    )
    [late] = [each for each in bench.send(elect, deadline_ms=bench.now_ms - 1) if isinstance(each, Answer)]
    assert late.response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert partition(bench).leader == 2
    bench.ask(elect)
    assert partition(bench).leader == 1


def test_leaders_are_eligible_and_first_by_the_order_of_replicas() -> None:
    """S3-33, S3-35: in sync and live; not by the order of the ISR; and who leads well goes on, whoever comes back."""
    bench, epochs = cluster(4)
    topic(bench, (1, 2, 3, 4))
    join(bench, 1, epochs, (4, 3, 1))
    fence(bench, 1, epochs[1])
    assert partition(bench).leader == 3
    bench.heartbeat(1, epochs[1])
    join(bench, 3, epochs, (4, 3, 1))
    assert partition(bench).leader == 3
    fence(bench, 4, epochs[4])
    fence(bench, 3, epochs[3])
    assert (partition(bench).leader, partition(bench).isr) == (1, (1,))
    fence(bench, 1, epochs[1])
    assert (partition(bench).leader, partition(bench).isr) == (NO_LEADER, (1,)), "2 is live and may lack records"


def test_the_elected_replica_leads_and_all_others_follow() -> None:
    """S3-36: each broker finds its own part in the delta, and whoever hosts nothing of it finds none."""
    bench, epochs = cluster(4)
    topic(bench, (1, 2, 3))
    before = bench.committed_image
    fence(bench, 1, epochs[1])
    delta = compare_images(before, bench.committed_image)
    found = {each: delta.local_changes(each) for each in (1, 2, 3, 4)}
    assert [each for each, changes in found.items() if changes.leaders] == [2]
    assert [each for each, changes in found.items() if changes.followers] == [1, 3]
    assert {one.delta.after.leader for each in (1, 3) for one in found[each].followers} == {2}
    assert not any(changes.removed for changes in found.values())


def test_a_broker_that_was_away_reads_one_record_of_a_partition_however_often_that_changed() -> None:
    """S3-45: a snapshot holds what is, and what was removed by its absence."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2))
    topic(bench, (1, 2), name="gone")
    known = bench.committed_image
    flap(bench, epochs, CHANGES)
    bench.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="gone"),), timeout_ms=1))
    content = list(snapshot_content(bench.committed_image))
    assert partition(bench).partition_epoch == 2 * CHANGES
    assert [type(decode_record(data)) for data in content].count(PartitionRecord) == 1
    loader = MetadataLoader(known)
    delta = loader.load_snapshot(content, bench.committed_image.provenance)
    assert loader.image == bench.committed_image
    assert delta is not None
    assert ([each.name for each in delta.deleted_topics.values()], len(list(image_records(loader.image)))) == (
        ["gone"],
        len(content),
    )


def reached(start: object) -> int:
    """How many containers and objects an object holds on to, classes and modules left out."""
    seen: dict[int, object] = {}
    todo = [start]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type | type(gc) | type(reached)):
            continue
        seen[id(each)] = each
        todo += gc.get_referents(each)
    return len(seen)


def test_a_broker_that_is_away_costs_the_controller_nothing() -> None:
    """S3-46: no queue grows for it: after hundreds of changes that it has not seen the machine holds what it held before."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2))
    fence(bench, 3, epochs[3])
    flap(bench, epochs, 20)
    before = reached(bench.machine)
    flap(bench, epochs, CHANGES)
    assert abs(reached(bench.machine) - before) < 50
