"""What becomes of a broker of which a log directory fails, while its replicas in that leave partition by partition."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller.elections import UNCLEAN_ELECTION
from headrace.controller.events import Answer, BrokerUnreachable, TimeAdvanced
from headrace.core.error_code import ErrorCode
from headrace.core.ids import LOST_DIRECTORY, Uuid
from headrace.metadata.image import NO_LEADER
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.controller import ControllerBench, active, directory
from tests.support.partitions import partition, topic

FAILED = Uuid(b"L" * 16)
LOST = 4
"""Partitions 0 to 3 are in the directory that fails, the others in one that does not."""


def broker_of_two_disks() -> tuple[ControllerBench, int]:
    """Broker 1 is the only one in sync of each partition; and its epoch. One partition is looked at in a step."""
    bench = active()
    epoch = bench.broker(1, log_dirs=(directory(1), FAILED))
    bench.broker(2)
    topic(bench, *[(1,)] * (LOST + 2))
    bench.ask(AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=where(bench, FAILED, LOST)))
    home = where(bench, directory(1), LOST + 2, first=LOST)
    bench.ask(AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=home))
    bench.machine.slice_size = 1
    return bench, epoch


def where(bench: ControllerBench, home: Uuid, end: int, *, first: int = 0) -> tuple[RequestDirectoryData, ...]:
    """Partitions up to `end` are in this directory."""
    numbers = tuple(RequestPartitionData(partition_index=number) for number in range(first, end))
    topic_id = bench.machine.image.topics.by_name["t"].id
    return (RequestDirectoryData(id=home, topics=(RequestTopicData(topic_id=topic_id, partitions=numbers),)),)


def finish(bench: ControllerBench) -> list[Any]:
    """All that is left to do is done; what was answered meanwhile."""
    effects = []
    while bench.machine.queue_size:
        effects += bench.commit() + bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    return [effect.response for effect in effects if isinstance(effect, Answer)]


def fails(bench: ControllerBench, epoch: int, how: str) -> None:
    """The broker says so, of the directory or, of one that the controller does not know any more, of each replica."""
    if how == "heartbeat":
        offset = bench.next_offset - 1
        bench.send(
            BrokerHeartbeatRequest(
                broker_id=1, broker_epoch=epoch, current_metadata_offset=offset, offline_log_dirs=(FAILED,)
            )
        )
    else:
        gone = where(bench, Uuid(b"G" * 16), LOST)
        bench.send(AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=gone))
    assert [partition(bench, number).leader for number in range(LOST)] != [NO_LEADER] * LOST, "it is not through"


@pytest.mark.parametrize("how", ["heartbeat", "assignment"])
def test_it_leads_on_what_is_in_its_other_directories(how: str) -> None:
    """inv:C7, inv:C25, KIP-858: somebody else's change of such a partition meanwhile takes no leader away, which nothing would bring back."""
    bench, epoch = broker_of_two_disks()
    fails(bench, epoch, how)
    moved = ReassignablePartition(partition_index=LOST, replicas=(1, 2))
    asked = ReassignableTopic(name="t", partitions=(moved,))
    bench.send(AlterPartitionReassignmentsRequest(topics=(asked,), timeout_ms=1))
    assert partition(bench, LOST).replicas == (1, 2)
    answers = finish(bench)
    assert [partition(bench, number).leader for number in range(LOST + 2)] == [NO_LEADER] * LOST + [1, 1]
    assert [each.error_code for each in answers] == [ErrorCode.NONE] * 2


def test_what_was_in_the_failed_one_is_led_by_nobody_meanwhile() -> None:
    """inv:C25: nor does the broker get new replicas before it is through."""
    bench, epoch = broker_of_two_disks()
    fails(bench, epoch, "heartbeat")
    assert partition(bench).leader == NO_LEADER
    asked = ElectLeadersRequest(
        election_type=UNCLEAN_ELECTION, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),), timeout_ms=1
    )
    bench.send(asked)
    bench.commit()
    topic(bench, (1, 2), name="new")
    assert (partition(bench).leader, partition(bench, name="new").isr) == (NO_LEADER, (2,))
    finish(bench)
    assert [partition(bench, number).leader for number in range(LOST)] == [NO_LEADER] * LOST
    assert bench.committed_image.cluster.brokers[1].log_dirs == (directory(1),)


def test_a_broker_that_is_fenced_at_the_same_time_leads_nothing() -> None:
    """inv:C7: both are under way, the one behind the other."""
    bench, epoch = broker_of_two_disks()
    fails(bench, epoch, "heartbeat")
    bench.now_ms += bench.config.broker_session_timeout_ms + 1
    bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    assert not bench.machine.image.cluster.brokers[1].fenced
    moved = ReassignableTopic(name="t", partitions=(ReassignablePartition(partition_index=LOST, replicas=(1, 2)),))
    bench.send(AlterPartitionReassignmentsRequest(topics=(moved,), timeout_ms=1))
    assert partition(bench, LOST).leader == NO_LEADER
    finish(bench)
    assert bench.committed_image.cluster.brokers[1].fenced


def test_a_broker_that_dies_of_its_disk_is_fenced_at_once() -> None:
    """C14's exception: a refused connection counts though replicas of the broker are just leaving a directory; nobody tells of it again."""
    bench, epoch = broker_of_two_disks()
    fails(bench, epoch, "heartbeat")
    bench.take(bench.machine.step(BrokerUnreachable(broker_id=1, broker_epoch=epoch, now_ms=bench.now_ms)))
    finish(bench)
    bench.commit()
    assert bench.committed_image.cluster.brokers[1].fenced
    assert [partition(bench, number).leader for number in range(LOST + 2)] == [NO_LEADER] * (LOST + 2)


def test_a_replica_that_is_lost_leads_nowhere_though_no_directories_are_known() -> None:
    """inv:C25, KIP-858: a broker that registered before the controllers noted directories says of single replicas that they are lost."""
    bench = active(features={"metadata.version": 14})
    epoch = bench.broker(1, log_dirs=())
    bench.broker(2, log_dirs=())
    topic(bench, (1, 2))
    raised = FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)
    assert bench.ask(UpdateFeaturesRequest(feature_updates=(raised,), timeout_ms=1)).error_code == 0
    bench.ask(AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=where(bench, LOST_DIRECTORY, 1)))
    assert (partition(bench).leader, partition(bench).isr) == (2, (2,))
    asked = TopicPartitions(topic="t", partitions=(0,))
    bench.heartbeat(2, bench.committed_image.cluster.brokers[2].broker_epoch, want_fence=True)
    bench.ask(ElectLeadersRequest(election_type=UNCLEAN_ELECTION, topic_partitions=(asked,), timeout_ms=1))
    assert partition(bench).leader == NO_LEADER
