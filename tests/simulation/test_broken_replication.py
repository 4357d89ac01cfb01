"""What becomes of a partition when its leader is cut off on one side only, when copies lose power, or everybody sleeps? On simulated time, every invariant checked after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.image import PartitionRegistration
from headrace.sim.checkers.copied_records import records_of
from headrace.sim.clock import WALL_START_MS
from headrace.sim.limits import Limits
from headrace.sim.scenario import Simulation
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.peer import batch

TOPIC = "copied-1"  # of this name the checkers know that it has copies
PLACE: Any = (TOPIC, 0)
CONTROLLERS, BROKERS = (1, 2, 3), (101, 102, 103)
LAG_MS, SESSION_MS = 10_000, 9_000
LIMITS = Limits(replica_lag_time_max_ms=LAG_MS, broker_session_timeout_ms=SESSION_MS)


def made(seed: int, *, min_isr: int = 2, partitions: int = 1) -> Simulation:
    """Three controllers, three brokers, and topic `copied-1` on all of these, led by 101."""
    cluster = Simulation(controllers=3, brokers=3, seed=seed, limits=LIMITS)
    cluster.start()
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=(*BROKERS[number % 3 :], *BROKERS[: number % 3]))
        for number in range(partitions)
    )
    configs = (CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr)),)
    topic = CreatableTopic(
        name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
    )
    assert cluster.call(CreateTopicsRequest(topics=(topic,), timeout_ms=20_000)).topics[0].error_code == 0
    cluster.run_for(1)
    return cluster


def now(cluster: Simulation, number: int = 0) -> PartitionRegistration:
    """The partition, as whoever has read most of the log has it."""
    images = [node.image for node in cluster.cluster.nodes.values() if node.is_up and node.image is not None]
    found = max(images, key=lambda image: image.provenance.last_contained_offset).topics.partition(TOPIC, number)
    assert found is not None
    return found


def write(cluster: Simulation, value: bytes, broker_id: int, *, timeout_ms: int = 2_000) -> tuple[int, int]:
    """(error, offset) of one acks=all record at this broker; NETWORK_EXCEPTION when it does not answer."""
    part = PartitionProduceData(index=0, records=bytes(batch(value, timestamp=WALL_START_MS)))
    request = ProduceRequest(
        acks=-1, timeout_ms=timeout_ms, topic_data=(TopicProduceData(name=TOPIC, partition_data=(part,)),)
    )
    try:
        answer = cluster.call(request, node_id=broker_id, version=9, within=timeout_ms / 1_000 + 3)
    except PeerError as error:
        return error.code, -1
    told = answer.responses[0].partition_responses[0]
    return told.error_code, told.base_offset


def copies(cluster: Simulation) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of every record of each copy of t-0."""
    topic_id = cluster.image().topics.by_name[TOPIC].id
    return {
        broker_id: [
            (each.offset, bytes(each.value or b""))
            for _, each in records_of(cluster.cluster, PLACE, broker_id, topic_id)
        ]
        for broker_id in BROKERS
    }


def until(cluster: Simulation, condition: Callable[[PartitionRegistration], bool], *, within: float = 60) -> float:
    """How many simulated seconds it took."""
    began = cluster.now
    cluster.run_until(lambda: condition(now(cluster)), within=within)
    return cluster.now - began


def healed(cluster: Simulation) -> None:
    """Every copy is in sync again, and all are equal."""
    cluster.heal()
    until(cluster, lambda part: set(part.isr) == set(BROKERS))
    cluster.run_for(2)
    first, *others = copies(cluster).values()
    assert all(each == first for each in others)
    cluster.cluster.judge_safety()


def test_a_leader_without_followers_acknowledges_nothing_and_shrinks_its_isr() -> None:
    """fault:S21, inv:P10: cut from its followers, in touch with the controllers: alone in the ISR it refuses writes with too few in sync; then the ISR is whole again."""
    cluster = made(3)
    assert write(cluster, b"before", 101) == (0, 0)
    for follower in (102, 103):
        cluster.cut(101, follower)
    assert write(cluster, b"not yet", 101)[0] == ErrorCode.REQUEST_TIMED_OUT
    until(cluster, lambda part: part.isr == (101,), within=1.5 * LAG_MS / 1_000 + 1)
    assert now(cluster).leader == 101
    assert write(cluster, b"refused", 101) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    healed(cluster)
    assert write(cluster, b"after", 101)[0] == 0
    values = [value for _, value in copies(cluster)[101]]
    assert values == [b"before", b"not yet", b"after"]


def test_a_leader_without_controllers_is_replaced_and_two_leaders_acknowledge_nothing_at_one_offset() -> None:
    """fault:S22, S0-02, S3-01, inv:P15: its followers still reach it, and it can change no ISR; after its session another one leads, and every acknowledged record is where it was acknowledged."""
    cluster = made(5)
    told = {write(cluster, b"before", 101)[1]: b"before"}
    for controller in CONTROLLERS:
        cluster.cut(101, controller)
    number = 0
    while now(cluster).leader == 101:
        error, offset = write(cluster, b"old %d" % number, 101)
        if error == 0:
            assert told.setdefault(offset, b"old %d" % number) == b"old %d" % number
        number += 1
        cluster.run_for(0.4)
        assert cluster.now < 60
    assert 0 < now(cluster).leader != 101
    assert set(now(cluster).isr) == {102, 103}
    for number in range(5):
        error, offset = write(cluster, b"late %d" % number, 101)
        assert error != 0, "the old leader acknowledges nothing any more"
        error, offset = write(cluster, b"new %d" % number, now(cluster).leader)
        assert error == 0
        assert told.setdefault(offset, b"new %d" % number) == b"new %d" % number
    healed(cluster)
    for found in copies(cluster).values():
        assert told.items() <= dict(found).items()


def test_a_follower_without_its_leader_leaves_the_isr_in_time_and_comes_back() -> None:
    """fault:S23, S3-25: it goes between `replica.lag.time.max.ms` and half as much again after it was last in sync, not fenced, and joins when it has caught up."""
    cluster = made(7)
    assert write(cluster, b"before", 101) == (0, 0)
    cluster.run_for(1)
    cluster.cut(101, 103)
    began = cluster.now
    assert write(cluster, b"meanwhile", 101)[0] == ErrorCode.REQUEST_TIMED_OUT
    until(cluster, lambda part: 103 not in part.isr)
    assert LAG_MS / 1_000 - 1 <= cluster.now - began <= 1.5 * LAG_MS / 1_000 + 1
    assert now(cluster).isr == (101, 102)
    assert cluster.image().cluster.brokers[103].is_active
    assert write(cluster, b"without it", 101)[0] == 0
    healed(cluster)
    assert [value for _, value in copies(cluster)[103]] == [b"before", b"meanwhile", b"without it"]


@pytest.mark.parametrize("lost", [101, 102])
@pytest.mark.parametrize("isr", [(101, 102, 103), (101, 102)])
def test_copies_fewer_than_min_isr_that_lose_power_cost_no_acknowledged_record(lost: int, isr: tuple[int, ...]) -> None:
    """fault:S51, inv:PR1, inv:P2, C10: `min.insync.replicas` 2: one of those in sync loses what it had not synced, then all die; nobody leads whose log may be short."""
    cluster = made(lost + len(isr))
    if len(isr) < 3:
        cluster.cut(101, 103)
    told = [write(cluster, b"kept %d" % number, 101, timeout_ms=20_000) for number in range(3)]
    assert [error for error, _ in told] == [0, 0, 0]
    assert now(cluster).isr == isr
    cluster.power_off(lost)
    until(cluster, lambda part: lost not in part.isr)
    cluster.kill(*(each for each in BROKERS if each != lost))
    until(cluster, lambda part: part.leader == -1 and not cluster.image().cluster.brokers[lost].is_active)
    cluster.run_for(10)
    cluster.start_nodes(lost)
    cluster.run_until(lambda: cluster.image().cluster.brokers[lost].is_active, within=60)
    cluster.run_for(10)
    assert now(cluster).leader == -1, "it is live, and may have lost what was acknowledged"
    cluster.heal()
    until(cluster, lambda part: part.leader > 0, within=90)
    assert now(cluster).leader in isr
    assert now(cluster).leader != lost
    until(cluster, lambda part: set(part.isr) == set(BROKERS), within=90)
    cluster.run_for(2)
    for found in copies(cluster).values():
        assert found == [(number, b"kept %d" % number) for number in range(3)]
    cluster.cluster.judge_safety()


@pytest.mark.parametrize("is_at_once", [True, False], ids=["at once", "one after the other"])
def test_a_cluster_that_slept_for_a_minute_has_no_storm(is_at_once: bool) -> None:
    """fault:S9, inv:C14: all nodes stand still for a minute, six times a session: each partition changes its leader once at most, and all serve again."""
    cluster = made(11, partitions=6)
    assert write(cluster, b"before", 101) == (0, 0)
    before = [now(cluster, number).leader_epoch for number in range(6)]
    cluster.pause(*CONTROLLERS, *BROKERS)
    cluster.run_for(60)
    for node_id in (*CONTROLLERS, *BROKERS):
        cluster.resume(node_id)
        if not is_at_once:
            cluster.run_for(0.7)
    cluster.run_until(cluster.is_ready, within=60)
    until(cluster, lambda part: part.leader > 0 and set(part.isr) == set(BROKERS))
    cluster.run_for(20)
    after = [now(cluster, number) for number in range(6)]
    assert all(then <= part.leader_epoch <= then + 1 for then, part in zip(before, after, strict=True))
    assert write(cluster, b"after", now(cluster).leader)[0] == 0
    cluster.cluster.judge_safety()
