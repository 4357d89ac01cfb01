"""Does a reassignment end, or stay as it was, whoever dies at whichever step of it? On simulated time, every invariant checked after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.metadata.image import PartitionRegistration
from headrace.sim.clock import WALL_START_MS
from headrace.sim.scenario import Simulation
from headrace.sim.serving import BROKER_PORT
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.peer import batch

BEFORE, TARGET = (101, 102), (103, 104)
SECONDS = 90.0


def made(seed: int) -> Simulation:
    """Three controllers, four brokers, a topic on two of these, with a record."""
    cluster = Simulation(controllers=3, brokers=4, seed=seed)
    cluster.start()
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=BEFORE)
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=(assignment,))
    assert cluster.call(CreateTopicsRequest(topics=(topic,), timeout_ms=20_000)).topics[0].error_code == 0
    cluster.run_for(1)
    assert write(cluster) == 0
    return cluster


def now(cluster: Simulation) -> PartitionRegistration:
    """The partition, as whoever has read most of the log has it."""
    images = [node.image for node in cluster.cluster.nodes.values() if node.is_up and node.image is not None]
    newest = max(images, key=lambda image: image.provenance.last_contained_offset)
    found = newest.topics.partition("t", 0)
    assert found is not None
    return found


def write(cluster: Simulation) -> int:
    """The error of one acks=all record, at the leader."""
    return write_to(cluster, now(cluster).leader)


def write_to(cluster: Simulation, broker_id: int) -> int:
    """The error of one acks=all record, at this broker."""
    part = PartitionProduceData(index=0, records=bytes(batch(b"x", timestamp=WALL_START_MS)))
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=(TopicProduceData(name="t", partition_data=(part,)),)
    )
    answer = cluster.call(request, node_id=broker_id, version=9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def end_offset(cluster: Simulation) -> int:
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(part,)),))
    offset: int = cluster.call(request, node_id=now(cluster).leader).topics[0].partitions[0].offset
    return offset


def move(target: tuple[int, ...] | None) -> AlterPartitionReassignmentsRequest:
    asked = ReassignablePartition(partition_index=0, replicas=target)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=20_000, topics=(ReassignableTopic(name="t", partitions=(asked,)),)
    )


def ask(cluster: Simulation, target: tuple[int, ...] | None) -> None:
    """Without waiting for an answer, at a broker that is up."""
    node = next(cluster.cluster.nodes[each] for each in (101, 102, 103, 104) if cluster.cluster.nodes[each].is_up)
    cluster._caller.ask(node, move(target), BROKER_PORT, timeout_ms=20_000)


def until(cluster: Simulation, condition: Callable[[PartitionRegistration], bool]) -> None:
    """In steps of a millisecond."""
    for _ in range(int(SECONDS * 1_000)):
        if condition(now(cluster)):
            return
        cluster.cluster.run_for(1)
    pytest.fail("it does not come to this")


STEPS: dict[str, Callable[[PartitionRegistration], bool]] = {
    "asked": lambda _part: True,
    "begun": lambda part: bool(part.adding_replicas),
    "one in sync": lambda part: bool(set(part.isr) & set(TARGET)),
    "ended": lambda part: part.replicas == TARGET,
}
WHO: dict[str, Callable[[Simulation], int]] = {
    "controller": lambda cluster: cluster.leader_id,
    "leader": lambda cluster: now(cluster).leader,
    "a replica that comes": lambda _cluster: TARGET[1],
    "a replica that goes": lambda _cluster: BEFORE[1],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("who", WHO)
def test_a_move_ends_whoever_dies_at_whichever_step(who: str, step: str) -> None:
    """S3-91, S3-92, S3-93, S3-94, S3-96, S3-98, S3-56: replicas go once those that come are in sync, all in one record, and their logs are removed; nothing is lost.

    A request that was under way when the controller died may not have been taken; then the partition is as it was, and the next request is.
    """
    cluster = made(len(who) * 31 + len(step))
    ask(cluster, TARGET)
    cluster.cluster.run_for(2)
    until(cluster, STEPS[step])
    victim = WHO[who](cluster)
    cluster.kill(victim)
    cluster.run_for(15)
    part = now(cluster)
    assert part.replicas in (BEFORE, TARGET, (*TARGET, *BEFORE)), "whole or not at all"
    if part.adding_replicas:
        assert set(part.replicas) == {*BEFORE, *TARGET}, "the old ones stay until the new ones are in sync"
        assert not set(TARGET) <= set(part.isr)
    cluster.heal()
    cluster.run_until(cluster.is_ready, within=SECONDS)
    cluster.run_for(2)
    if now(cluster).replicas == BEFORE:
        assert step == "asked"
        assert cluster.call(move(TARGET)).responses[0].partitions[0].error_code == 0
    until(cluster, lambda part: (part.replicas, set(part.isr)) == (TARGET, set(TARGET)))
    part = now(cluster)
    assert (part.adding_replicas, part.removing_replicas, part.leader in TARGET) == ((), (), True)
    cluster.run_for(5)
    assert end_offset(cluster) == 1
    assert write(cluster) == 0
    for broker_id in BEFORE:
        assert "t" not in hosted(cluster, broker_id)
    cluster.cluster.judge_safety()


def hosted(cluster: Simulation, broker_id: int) -> set[str]:
    """The topics of which a broker has logs."""
    answer: Any = cluster.call(DescribeLogDirsRequest(topics=None), node_id=broker_id)
    return {topic.name for each in answer.results for topic in each.topics}


def test_the_former_leader_acknowledges_nothing_after_the_switch() -> None:
    """S3-90, S3-94, S3-95: the leader goes with the move, and clients go on at the new one after one look at the metadata."""
    cluster = made(3)
    old = now(cluster).leader
    ask(cluster, TARGET)
    until(cluster, STEPS["ended"])
    cluster.run_for(1)
    assert write_to(cluster, old) != 0
    assert write(cluster) == 0
    assert end_offset(cluster) == 2


@pytest.mark.parametrize("step", ["begun", "one in sync"])
@pytest.mark.parametrize("target", [None, (104, 101)], ids=["cancelled", "to somewhere else"])
def test_a_move_is_cancelled_or_sent_elsewhere_while_the_controller_dies(
    target: tuple[int, ...] | None, step: str
) -> None:
    """S3-100: back to the replicas before, or to the newest target, and to nothing in between."""
    cluster = made(5 + len(step))
    ask(cluster, TARGET)
    until(cluster, STEPS[step])
    ask(cluster, target)
    cluster.cluster.run_for(1)
    cluster.kill(cluster.leader_id)
    cluster.run_for(5)
    cluster.heal()
    cluster.run_until(cluster.is_ready, within=SECONDS)
    wanted = BEFORE if target is None else target
    if set(now(cluster).replicas) != set(wanted) and now(cluster).replicas[:2] != wanted:
        code = cluster.call(move(target)).responses[0].partitions[0].error_code
        assert code == 0 or now(cluster).replicas == TARGET, "too late to cancel: it was over"
    until(
        cluster,
        lambda part: not part.adding_replicas and not part.removing_replicas and set(part.isr) == set(part.replicas),
    )
    assert set(now(cluster).replicas) in ({*wanted}, {*TARGET})
    assert end_offset(cluster) == 1
    cluster.cluster.judge_safety()


def test_nothing_is_committed_that_a_silent_member_lacks_while_nobody_can_drop_it() -> None:
    """S3-81, S3-82: the follower is dead and no controller can be reached: the high watermark stays, also past `replica.lag.time.max.ms`; then the ISR shrinks and it moves."""
    cluster = made(7)
    cluster.kill(*(other for other in BEFORE if other != now(cluster).leader))
    cluster.kill(1, 2, 3)
    assert write(cluster) != 0
    assert end_offset(cluster) == 1
    assert set(now(cluster).isr) == set(BEFORE)
    cluster.start_nodes(1, 2, 3)
    until(cluster, lambda part: len(part.isr) == 1)
    cluster.run_for(2)
    assert end_offset(cluster) == 2
    cluster.cluster.judge_safety()


def test_a_creation_is_there_whole_or_not_at_all_whenever_the_controller_dies() -> None:
    """S3-62, S3-70: killed at each millisecond after the request; asked again, it is made, or it is there already, and every broker has all of it."""
    for after_ms in range(1, 14, 2):
        with Simulation(controllers=3, brokers=2, seed=after_ms) as cluster:
            topic = CreatableTopic(name="t", num_partitions=3, replication_factor=2)
            request = CreateTopicsRequest(topics=(topic,), timeout_ms=20_000)
            cluster._caller.ask(cluster.cluster.nodes[101], request, BROKER_PORT, timeout_ms=20_000)
            cluster.cluster.run_for(after_ms)
            cluster.kill(cluster.leader_id)
            cluster.run_for(5)
            cluster.heal()
            cluster.run_until(cluster.is_ready, within=SECONDS)
            again = cluster.call(request).topics[0].error_code
            assert again in (0, 36)
            cluster.run_for(2)
            for broker_id in (101, 102):
                assert len(cluster.image(broker_id).topics.by_name["t"].partitions) == 3
                assert "t" in hosted(cluster, broker_id)
