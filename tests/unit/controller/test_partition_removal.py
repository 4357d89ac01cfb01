"""The last partition of a topic is removed, where that is allowed, and one that is made later is a new one."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.metadata.compare import compare_images
from headrace.metadata.image import EMPTY_IMAGE
from headrace.metadata.replay import ReplayError, replay_all
from headrace.metadata.snapshot import image_records
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from tests.support.controller import ControllerBench
from tests.support.partitions import cluster, fence, partition, topic


def remove(bench: ControllerBench, number: int, name: str = "t") -> int:
    """The error code of one removal."""
    asked = ReassignablePartition(partition_index=number, replicas=())
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=name, partitions=(asked,)),))
    code: int = bench.ask(request).responses[0].partitions[0].error_code
    return code


def grow(bench: ControllerBench, count: int) -> None:
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="t", count=count, assignments=None),), timeout_ms=1
    )
    assert bench.ask(request).results[0].error_code == 0


def numbers(bench: ControllerBench) -> list[int]:
    return sorted(bench.committed_image.topics.by_name["t"].partitions)


def allowing(count: int = 3) -> tuple[ControllerBench, dict[int, int]]:
    return cluster(count, partition_deletion_enable=True)


def test_a_removal_is_refused_unless_it_is_allowed() -> None:
    """S3-44, S3-78: INVALID_REPLICA_ASSIGNMENT, as Kafka says of a target without replicas."""
    bench, _ = cluster(2)
    topic(bench, (1,), (2,))
    assert remove(bench, 1) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert numbers(bench) == [0, 1]


def test_the_last_partition_goes_and_the_only_one_stays() -> None:
    """S3-44, S3-74, S3-78, S3-64, D-03: the highest number, while there are others; else INVALID_PARTITIONS, and nothing is written."""
    bench, _ = allowing()
    topic(bench, (1,), (2,), (3,))
    before = len(bench.log)
    assert [remove(bench, number) for number in (0, 1)] == [ErrorCode.INVALID_PARTITIONS] * 2
    assert remove(bench, 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(bench.log) == before
    assert remove(bench, 2) == 0
    [record] = bench.log[before:]
    assert isinstance(record, PartitionChangeRecord)
    assert (record.partition_id, record.replicas, record.isr, record.leader) == (2, (), (), -1)
    assert remove(bench, 1) == 0
    assert numbers(bench) == [0]
    assert remove(bench, 0) == ErrorCode.INVALID_PARTITIONS


def test_the_partitions_of_internal_topics_stay() -> None:
    """S3-78: a group's partition is a hash over their number."""
    bench, _ = allowing()
    topic(bench, (1,), (2,), name="__consumer_offsets")
    assert remove(bench, 1, "__consumer_offsets") == ErrorCode.INVALID_PARTITIONS


def test_what_the_controller_knows_of_a_removed_partition_goes_too() -> None:
    """S2-01, S3-78: its broker can be fenced, the indexes equal a full scan; also on a standby, which follows deltas."""
    bench, epochs = allowing()
    standby = ControllerBench(partition_deletion_enable=True)
    topic(bench, (1, 2), (2, 1))
    assert remove(bench, 1) == 0
    standby.follow(bench)
    for each in (bench, standby):
        assert each.committed_image.topics == bench.committed_image.topics
    fence(bench, 2, epochs[2])
    assert partition(bench).isr == (1,)
    assert numbers(bench) == [0]


def test_a_partition_that_is_made_anew_begins_above_all_epochs_of_the_one_before() -> None:
    """S3-78: so that nobody takes the old log for its own; a snapshot tells it too."""
    bench, epochs = allowing()
    topic(bench, (1, 2), (1, 2))
    for broker_id in (1, 2) * 3:
        fence(bench, broker_id, epochs[broker_id])
        bench.heartbeat(broker_id, epochs[broker_id])
    before = partition(bench, 1).leader_epoch
    assert before > 0
    assert remove(bench, 1) == 0
    grow(bench, 2)
    after = partition(bench, 1)
    assert before < after.leader_epoch == after.first_leader_epoch
    fence(bench, after.leader, epochs[after.leader])
    later = partition(bench, 1)
    assert (later.first_leader_epoch, later.leader_epoch) == (after.first_leader_epoch, after.leader_epoch + 1)
    image = bench.committed_image
    restored = replay_all(EMPTY_IMAGE, [each.record for each in image_records(image)])
    assert restored.topics == image.topics


def test_deltas_name_what_was_removed() -> None:
    """S3-78: to the broker that has it, once; also when a snapshot jumps over it, and when it was made anew meanwhile."""
    bench, _ = allowing()
    topic(bench, (1, 3), (2, 3))
    start = bench.committed_image
    assert remove(bench, 1) == 0
    assert bench.last_delta is not None
    for delta in (bench.last_delta, compare_images(start, bench.committed_image)):
        assert [(each.topic, each.partition) for each in delta.local_changes(2).removed] == [("t", 1)]
        assert delta.local_changes(1).removed == ()
        assert (delta.local_changes(2).leaders, delta.local_changes(3).followers) == ((), ())
    grow(bench, 2)
    new = partition(bench, 1)
    jumped = compare_images(start, bench.committed_image).local_changes(new.leader)
    assert [each.delta.after for each in jumped.leaders] == [new]


@pytest.mark.parametrize("number", [0, 1])
def test_a_record_that_would_leave_a_gap_makes_no_sense(number: int) -> None:
    """C12, S3-78: a node stops at such a log."""
    bench, _ = allowing()
    topic(bench, *([(1,)] * (1 if number == 0 else 3)))
    topic_id: Uuid = bench.committed_image.topics.by_name["t"].id
    record: Any = PartitionChangeRecord(partition_id=number, topic_id=topic_id, replicas=(), isr=(), leader=-1)
    with pytest.raises(ReplayError, match="cannot be removed"):
        replay_all(bench.committed_image, [record])
