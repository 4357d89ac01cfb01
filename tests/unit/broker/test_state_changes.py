"""The life of changes of replicas' states, as one broker and the active controller tell it."""

from __future__ import annotations

from typing import Any

from headrace.broker.state_changes import StateChange, StateChanges
from headrace.core.ids import Uuid
from headrace.core.values import changed
from headrace.metadata.compare import compare_images
from headrace.wire.messages import alter_partition_reassignments as moving
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.broker_bench import BrokerBench
from tests.support.controller import ControllerBench
from tests.support.partitions import cluster, fence, join, topic


class Followed:
    """A broker whose state changes are followed."""

    def __init__(self, **settings: Any) -> None:
        self.bench = BrokerBench(**settings)
        clock = self.bench.clock
        self.changes = StateChanges(1, now_ms=clock.now_ms, wall_ms=clock.wall_ms)
        self.bench.broker.state_changes = self.changes
        self.lines: list[StateChange] = []
        self.changes.on_change = self.lines.append

    def take(self) -> list[tuple[str, str, str, int]]:
        """Phase, action, role and leader epoch of what was told since."""
        told: list[tuple[str, str, str, int]] = [
            (each.phase, each.action, each.role, each.leader_epoch) for each in self.lines
        ]
        self.lines.clear()
        return told


def test_a_broker_tells_what_it_received_and_completed() -> None:
    """S3-08, S3-41, S3-42: a new replica, a new leader epoch, and the end; a change of who is in sync changes no role and is none."""
    followed = Followed()
    bench = followed.bench
    bench.topic("t", replicas=(1, 2), leader=1)
    assert followed.take() == [("received", "start-replica", "leader", 0), ("completed", "start-replica", "leader", 0)]
    bench.topic("t", replicas=(1, 2), leader=1, isr=(1,), partition_epoch=1)
    assert followed.take() == []
    bench.topic("t", replicas=(1, 2), leader=2, leader_epoch=1, partition_epoch=2)
    assert followed.take() == [
        ("received", "become-follower", "follower", 1), ("completed", "become-follower", "follower", 1),
    ]  # fmt: skip
    bench.topic("t", replicas=(1, 2), leader=1, leader_epoch=2, partition_epoch=3)
    assert [each[1] for each in followed.take()] == ["become-leader"] * 2
    bench.delete("t")
    assert followed.take() == [("received", "close-replica", "", 2), ("completed", "close-replica", "", 2)]
    assert followed.changes.pending == 0


def test_a_new_partition_without_a_leader_is_begun() -> None:
    """S3-41: its log is there when it has a role."""
    followed = Followed()
    followed.bench.topic("t", replicas=(1, 2), leader=-1, isr=(2,))
    assert [each[:2] for each in followed.take()] == [("received", "start-replica"), ("completed", "start-replica")]
    hosted = followed.bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert hosted.log is not None


def test_a_broker_without_a_replica_hears_of_nothing() -> None:
    """S3-24, S3-37, S3-39, S3-47: a partition that is not placed here is no business of this broker."""
    followed = Followed()
    followed.bench.topic("t", replicas=(2, 3), leader=2)
    followed.bench.topic("t", replicas=(2, 3), leader=3, leader_epoch=1, partition_epoch=1)
    assert followed.take() == []
    assert followed.bench.broker.partitions.get("t", 0) is None
    followed.bench.topic("t", replicas=(2, 3, 1), leader=3, leader_epoch=1, partition_epoch=2)
    assert [each[:2] for each in followed.take()] == [("received", "start-replica"), ("completed", "start-replica")]


def test_what_is_not_done_yet_is_pending_and_what_is_overtaken_has_failed() -> None:
    """S3-09, S3-10, S3-38: very many partitions take turns; a topic that goes meanwhile ends what was begun, whatever its epoch (S3-40)."""
    followed = Followed()
    bench = followed.bench
    bench.publishes_in_turns = True
    bench.topic("t", replicas=(1, 2), leader=1, partitions=40)
    begun = len([each for each in followed.take() if each[0] == "completed"])
    assert 0 < begun < 40
    assert followed.changes.pending == 40 - begun
    bench.delete("t")
    told = followed.take()
    assert sum(each[0] == "failed" for each in told) == 40 - begun
    assert followed.changes.pending_deletes == 40
    while bench.broker.due_roles:
        bench.publisher.tick()
    assert (followed.changes.pending, followed.changes.pending_deletes) == (0, 0)
    assert [each[:2] for each in followed.take()] == [("completed", "close-replica")] * 40
    counts = followed.changes.counts
    assert counts["received", "start-replica"] == 40
    assert counts["completed", "start-replica"] + counts["failed", "start-replica"] == 40
    assert followed.changes.received_to_completed.count == begun + 40


def test_a_replica_that_gets_no_log_has_failed_with_its_cause() -> None:
    """S3-08: and stays in the backlog, for it is not done (S3-10)."""
    followed = Followed()
    bench = followed.bench
    bench.broker.on_storage_fault = lambda _fault: None  # a node's does the rest
    bench.logs.fail_directory("/data")
    bench.topic("t", replicas=(1,), leader=1)
    assert [each[0] for each in followed.take()] == ["received", "failed"]
    assert followed.changes.pending == 1
    assert followed.changes.counts["failed", "start-replica"] == 1


def requested(bench: ControllerBench, since: Any) -> list[tuple[str, int, int, int]]:
    """What the controller tells of all that was committed since an image: action, target, source, partition."""
    changes = StateChanges(1, now_ms=lambda: 0, wall_ms=lambda: 0)
    lines: list[StateChange] = []
    changes.on_change = lines.append
    changes.requested(changed(compare_images(since, bench.committed_image), from_snapshot=False))
    assert {(each.phase, each.role, each.node) for each in lines} <= {("requested", "controller", 1)}
    return sorted((each.action, each.target, each.source, each.partition) for each in lines)


def test_the_controller_tells_each_replica_what_is_asked_of_it() -> None:
    """S3-02, S3-08, S3-43: a new topic, a lost leader, a reassignment that starts only the replica that is new, a deletion."""
    bench, epochs = cluster(3)
    first = bench.committed_image
    topic(bench, (1, 2))
    assert requested(bench, first) == [("start-replica", 1, -1, 0), ("start-replica", 2, 1, 0)]
    second = bench.committed_image
    fence(bench, 1, epochs[1])
    assert requested(bench, second) == [("become-follower", 1, 2, 0), ("become-leader", 2, 1, 0)]
    third = bench.committed_image
    part = moving.ReassignablePartition(partition_index=0, replicas=(2, 3))
    bench.ask(
        moving.AlterPartitionReassignmentsRequest(topics=(moving.ReassignableTopic(name="t", partitions=(part,)),))
    )
    assert requested(bench, third) == [("start-replica", 3, 2, 0)]
    fourth = bench.committed_image
    join(bench, 2, epochs, (2, 3))
    assert requested(bench, fourth) == [
        ("become-follower", 3, 2, 0), ("become-leader", 2, 2, 0), ("close-replica", 1, -1, 0),
    ]  # fmt: skip
    fifth = bench.committed_image
    bench.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1))
    assert requested(bench, fifth) == [("close-replica", 2, -1, 0), ("close-replica", 3, -1, 0)]


def test_the_epochs_of_a_life_are_those_of_the_decision() -> None:
    """S3-04, S3-08: the leader epoch rises by one with the leader; all phases name the same partition epoch."""
    followed = Followed()
    followed.bench.topic("t", replicas=(1, 2), leader=2, leader_epoch=7, partition_epoch=9)
    assert {(each.leader_epoch, each.partition_epoch, each.source) for each in followed.lines} == {(7, 9, 2)}
    assert {each.topic_id for each in followed.lines} == {Uuid(b"t".ljust(16, b"-"))}
