"""Replicas move to other brokers: begin, end, change of mind, and what can't be done."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.metadata.image import LEADER_RECOVERING, NO_LEADER
from headrace.wire.messages import assign_replicas_to_dirs as assign
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.controller import ControllerBench, directory
from tests.support.partitions import cluster, fence, join, partition, topic


def reassign(bench: ControllerBench, replicas: tuple[int, ...] | None, number: int = 0, **fields: Any) -> int:
    """The error code of one reassignment."""
    asked = ReassignablePartition(partition_index=number, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=(asked,)),), **fields)
    code: int = bench.ask(request).responses[0].partitions[0].error_code
    return code


def moving(bench: ControllerBench) -> list[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """What ListPartitionReassignments tells: partition, replicas, adding, removing."""
    answer = bench.ask(ListPartitionReassignmentsRequest(topics=None))
    return [
        (each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for one in answer.topics
        for each in one.partitions
    ]


def shape(bench: ControllerBench, number: int = 0) -> tuple[tuple[int, ...], ...]:
    """Replicas, ISR, adding, removing."""
    found = partition(bench, number)
    return found.replicas, found.isr, found.adding_replicas, found.removing_replicas


def test_a_reassignment_ends_with_the_isr_change_that_completes_it() -> None:
    """S2-06, S2-08, S3-15, S3-91, S3-92, S3-93, S3-94, KIP-455, inv:C5, inv:CL3: the extra replicas and the leader among them go in the same record."""
    bench, epochs = cluster(4)
    topic(bench, (1, 2))
    assert reassign(bench, (3, 4)) == 0
    assert shape(bench) == ((3, 4, 1, 2), (1, 2), (3, 4), (1, 2))
    assert moving(bench) == [(0, (3, 4, 1, 2), (3, 4), (1, 2))]
    assert join(bench, 1, epochs, (1, 2, 3)).error_code == 0
    assert shape(bench) == ((3, 4, 1, 2), (1, 2, 3), (3, 4), (1, 2))
    before = partition(bench)
    answer = join(bench, 1, epochs, (1, 2, 3, 4))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    after = partition(bench)
    assert shape(bench) == ((3, 4), (3, 4), (), ())
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (
        3,
        before.leader_epoch + 1,
        before.partition_epoch + 1,
    )
    assert after.directories == (directory(3), directory(4))
    assert moving(bench) == []


def test_a_leader_that_stays_keeps_leading_with_a_new_epoch() -> None:
    """S2-08, S3-04, S3-95, S3-99, inv:C6: replicas that go must not follow on in the old epoch, and nothing is left pending."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2))
    assert reassign(bench, (1, 3)) == 0
    before = partition(bench)
    assert join(bench, 1, epochs, (1, 2, 3)).error_code == 0
    assert shape(bench) == ((1, 3), (1, 3), (), ())
    assert (partition(bench).leader, partition(bench).leader_epoch) == (1, before.leader_epoch + 1)


def test_only_replicas_that_are_new_are_added() -> None:
    """S3-43, KIP-455: those that stay keep their place, epochs and directory, whichever order the target has."""
    bench, _ = cluster(4)
    topic(bench, (1, 2, 3))
    before = partition(bench)
    assert reassign(bench, (4, 3, 1)) == 0
    after = partition(bench)
    assert shape(bench) == ((4, 3, 1, 2), (1, 2, 3), (4,), (2,))
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert all(after.directory_of(each) == before.directory_of(each) for each in (1, 2, 3))


def test_a_replica_that_is_on_its_way_stays_in_its_directory_when_the_target_changes() -> None:
    """S3-43, KIP-858: what it has copied is there; only replicas that are new are placed."""
    bench, _ = cluster(2)
    places = (Uuid(b"directory-nr-one"), Uuid(b"directory-nr-two"))
    epoch = bench.broker(3, log_dirs=places)
    topic(bench, (1, 2))
    assert reassign(bench, (3, 2)) == 0
    topic_id = bench.machine.image.topics.by_name["t"].id
    there = assign.RequestTopicData(topic_id=topic_id, partitions=(assign.RequestPartitionData(),))
    asked = assign.RequestDirectoryData(id=places[1], topics=(there,))
    bench.ask(assign.AssignReplicasToDirsRequest(broker_id=3, broker_epoch=epoch, directories=(asked,)))
    assert partition(bench).directory_of(3) == places[1]
    assert reassign(bench, (3, 1)) == 0
    assert (shape(bench)[2], partition(bench).directory_of(3)) == ((3,), places[1])


def test_a_new_order_or_fewer_replicas_need_no_waiting() -> None:
    """S2-06, KIP-455: nothing is to be copied."""
    bench, _ = cluster(3)
    topic(bench, (1, 2, 3))
    assert reassign(bench, (2, 1, 3)) == 0
    assert shape(bench) == ((2, 1, 3), (1, 2, 3), (), ())
    assert partition(bench).leader == 1
    assert reassign(bench, (2,)) == 0
    assert shape(bench) == ((2,), (2,), (), ())
    assert partition(bench).leader == 2


def test_more_replicas_only() -> None:
    """S2-06, KIP-860: the factor may change unless that is forbidden."""
    bench, epochs = cluster(3)
    topic(bench, (1,))
    assert reassign(bench, (1, 2, 3), allow_replication_factor_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(bench, (2,), allow_replication_factor_change=False) == 0
    assert reassign(bench, None) == 0
    assert reassign(bench, (1, 2, 3)) == 0
    assert shape(bench) == ((1, 2, 3), (1,), (2, 3), ())
    join(bench, 1, epochs, (1, 2, 3))
    assert shape(bench) == ((1, 2, 3), (1, 2, 3), (), ())


def test_a_reassignment_is_cancelled() -> None:
    """S2-06, S3-100, inv:CL3: back to the replicas before; added ones leave the ISR; a leader among them is replaced."""
    bench, epochs = cluster(4)
    topic(bench, (1, 2))
    assert reassign(bench, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(bench, (3, 4))
    join(bench, 1, epochs, (1, 2, 3))
    fence(bench, 1, epochs[1])
    assert partition(bench).leader == 3
    assert reassign(bench, None) == 0
    assert shape(bench) == ((1, 2), (2,), (), ())
    assert partition(bench).leader == 2


@pytest.mark.parametrize("allowed", [False, True])
def test_a_cancellation_never_loses_data_quietly(allowed: bool) -> None:
    """inv:C11: when only added replicas are in sync, it needs the setting for unclean elections, and is marked."""
    bench, epochs = cluster(3)
    topic(bench, (1,), **({"unclean_leader_election_enable": "true"} if allowed else {}))
    reassign(bench, (2, 3))
    join(bench, 1, epochs, (1, 2))
    fence(bench, 1, epochs[1])
    assert (partition(bench).leader, partition(bench).isr) == (2, (2,))
    bench.heartbeat(1, epochs[1])
    assert reassign(bench, None) == (0 if allowed else ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    if allowed:
        after = partition(bench)
        assert (after.replicas, after.isr, after.leader) == ((1,), (1,), 1)
        assert after.leader_recovery_state == LEADER_RECOVERING


def test_a_target_may_change_on_the_way() -> None:
    """S2-06, S3-100, inv:C5: adding and removing are those of the newest target, and a target that is there ends it."""
    bench, epochs = cluster(5)
    topic(bench, (1, 2))
    reassign(bench, (3, 4))
    assert reassign(bench, (3, 5)) == 0
    assert shape(bench) == ((3, 5, 1, 2), (1, 2), (3, 5), (1, 2))
    assert reassign(bench, (1, 2)) == 0
    assert shape(bench) == ((1, 2), (1, 2), (), ())
    assert join(bench, 1, epochs, (1, 2)).error_code == 0


@pytest.mark.parametrize("second", [(3, 4), (1, 4), (3, 5), (4, 3, 1, 2)])
def test_a_cancellation_leads_back_to_the_replicas_before_the_first_target(second: tuple[int, ...]) -> None:
    """inv:CL3, KIP-455: the same target again, a part of it, another one, more: no replica of any of them is left."""
    bench, epochs = cluster(5)
    topic(bench, (1, 2))
    reassign(bench, (3, 4))
    join(bench, 1, epochs, (1, 2, 3))
    assert reassign(bench, second) == 0
    found = partition(bench)
    assert found.replicas[: len(second)] == second
    assert set(found.adding_replicas) == set(second) - {1, 2}
    assert reassign(bench, None) == 0
    after = partition(bench)
    assert (sorted(after.replicas), set(after.isr), after.leader) == ([1, 2], {1, 2}, 1)
    assert moving(bench) == []


def test_a_replica_that_alone_is_in_sync_stays_until_another_one_is() -> None:
    """inv:C7, inv:C11: the target before had it, the new one has not."""
    bench, epochs = cluster(4)
    topic(bench, (1,))
    reassign(bench, (2, 3))
    join(bench, 1, epochs, (1, 2))
    fence(bench, 1, epochs[1])
    assert reassign(bench, (3,)) == 0
    assert shape(bench) == ((3, 1, 2), (2,), (3,), (1, 2))
    assert join(bench, 2, epochs, (2, 3)).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert shape(bench) == ((3,), (3,), (), ())


def test_a_broker_that_goes_does_not_end_a_reassignment() -> None:
    """inv:CL3, inv:C7: the removed replica that is fenced leaves; the target must still come into sync."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2))
    reassign(bench, (3,))
    fence(bench, 2, epochs[2])
    assert shape(bench) == ((3, 1, 2), (1,), (3,), (1, 2))
    fence(bench, 1, epochs[1])
    assert (partition(bench).leader, partition(bench).isr) == (NO_LEADER, (1,))
    bench.heartbeat(1, epochs[1])
    join(bench, 1, epochs, (1, 3))
    assert shape(bench) == ((3,), (3,), (), ())


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_targets_that_are_refused(replicas: tuple[int, ...], error: int) -> None:
    """S2-06, B72: nothing changes."""
    bench, _ = cluster(2)
    topic(bench, (1,))
    before = partition(bench)
    assert reassign(bench, replicas) == error
    assert partition(bench) == before


def test_a_partition_is_named_once() -> None:
    """S2-06: the second would be decided on what the first changed."""
    bench, _ = cluster(2)
    topic(bench, (1,))
    asked = ReassignablePartition(partition_index=0, replicas=(2,))
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=(asked, asked)),))
    codes = [each.error_code for each in bench.ask(request).responses[0].partitions]
    assert codes == [0, ErrorCode.INVALID_REQUEST]


def test_reassignments_are_listed_by_name_too() -> None:
    """S2-06, KIP-455: those that go on; others and unknown ones are left out."""
    bench, _ = cluster(3)
    topic(bench, (1,), (2,))
    reassign(bench, (3,), 1)
    named = ListPartitionReassignmentsTopics(name="t", partition_indexes=(0, 1, 7))
    other = ListPartitionReassignmentsTopics(name="x", partition_indexes=(0,))
    answer = bench.ask(ListPartitionReassignmentsRequest(topics=(named, other)))
    assert [(one.name, [each.partition_index for each in one.partitions]) for one in answer.topics] == [("t", [1])]


@pytest.mark.parametrize(
    ("target", "in_sync", "is_over"),
    [
        ((2, 3, 4, 6), (2, 6), True),
        ((6, 2, 3, 4, 5), (2, 6), True),
        ((2, 6, 7), (2, 6), False),
        ((6, 7), (2, 6, 7), True),
        ((2, 3, 6), (2, 6), False),
        ((2, 3, 6), (2, 3, 6), True),
        ((5, 6), (2, 6), False),
        ((2, 3), (2,), False),
    ],
)
def test_a_replica_that_lags_anyway_holds_up_only_a_shrinking_assignment(
    target: tuple[int, ...], in_sync: tuple[int, ...], is_over: bool
) -> None:
    """S2-08, inv:CL3, KIP-455: the table is Apache Kafka 4.3.1's; 3, 4 and 5 are out of sync when it begins."""
    bench, epochs = cluster(7)
    topic(bench, (2, 3, 4, 5))
    join(bench, 2, epochs, (2,))
    assert reassign(bench, target) == 0
    join(bench, 2, epochs, in_sync)
    found = partition(bench)
    assert (moving(bench) == []) is is_over
    assert set(found.isr) == (set(in_sync) & set(target) if is_over else set(in_sync))
