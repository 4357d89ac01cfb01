"""The life of state changes on real nodes, in their files and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.wire.messages import alter_partition_reassignments as moving
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.commands import headrace, refusal
from tests.support.copies import create, in_sync, leader, partitions
from tests.support.roles import until

A, B, C = 101, 102, 103
CHANGES = "kafka_server_statechange_"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller and three brokers that write their files."""
    made = Cluster(controllers=1, brokers=3, properties={"broker.session.timeout.ms": "60000"}).with_metrics()
    for member in made.members.values():
        member.properties["headrace.state.change.file"] = file_of(made, member.node_id)
    with made as running:
        yield running


def file_of(cluster: Cluster, node_id: int) -> str:
    return str(cluster.directory / f"state-change-{node_id}.log")


def told(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """What the command makes of the files of all nodes."""
    files = [file_of(cluster, each) for each in cluster.members]
    done = headrace("state-changes", *files, "--json", *arguments)
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


def phases(cluster: Cluster, topic: str, action: str, broker: int, *, completed: int = 1) -> list[dict[str, Any]]:
    """The lines of one broker's part in it, once so many are completed."""

    def found() -> list[dict[str, Any]] | None:
        lines = told(cluster, "--topic", topic, "--partition", "0", "--action", action, "--broker", str(broker))
        return lines if sum(each["phase"] == "completed" for each in lines) == completed else None

    return until(found)


def test_a_new_topic_is_followed_on_each_replica(cluster: Cluster) -> None:
    """S3-08, B-T13: for each replica the three phases, in order, with one leader epoch and one partition epoch."""
    create(cluster, "foo", [(A, B, C)])
    for broker in (A, B, C):
        lines = phases(cluster, "foo", "start-replica", broker)
        by_writing = sorted(lines, key=lambda each: ("requested", "received", "completed").index(each["phase"]))
        assert [each["phase"] for each in by_writing] == ["requested", "received", "completed"]
        assert [each["node"] for each in by_writing] == [1, broker, broker]
        assert by_writing[0]["role"] == "controller"
        assert {each["role"] for each in by_writing[1:]} == {"leader" if broker == A else "follower"}
        assert {(each["leaderEpoch"], each["partitionEpoch"]) for each in lines} == {(0, 0)}
        assert len({each["topicId"] for each in lines}) == 1
        assert by_writing[1]["metadataOffset"] == by_writing[2]["metadataOffset"] >= by_writing[0]["metadataOffset"]


def test_a_new_leader_and_a_move_are_followed(cluster: Cluster) -> None:
    """S3-37, S3-43: every broker that hosts the partition acts, and no other; a reassignment starts the new replica and closes the old one."""
    create(cluster, "bar", [(B, C)])
    in_sync(cluster, "bar")
    part = moving.ReassignablePartition(partition_index=0, replicas=(A, C))
    request = moving.AlterPartitionReassignmentsRequest(
        topics=(moving.ReassignableTopic(name="bar", partitions=(part,)),)
    )
    assert ask(cluster[C].place.host, cluster[C].port, request, 0).responses[0].partitions[0].error_code == 0
    assert leader(cluster, "bar", other_than=B).node_id in (A, C)
    until(lambda: set(partitions(cluster[C], "bar")[0].replica_nodes) == {A, C} or None)
    phases(cluster, "bar", "start-replica", A)
    closed = phases(cluster, "bar", "close-replica", B)
    assert {each["phase"] for each in closed} == {"requested", "received", "completed"}
    started = {
        each["target"] for each in told(cluster, "--topic", "bar", "--action", "start-replica", "--phase", "requested")
    }
    assert started == {A, B, C}
    assert (
        len(told(cluster, "--topic", "bar", "--action", "start-replica", "--broker", str(C), "--phase", "received"))
        == 1
    )


def test_a_broker_that_stands_still_has_a_backlog(cluster: Cluster) -> None:
    """S3-10, S3-09, B-M08: seen at the controller while it lasts, in the files by --backlog, and gone afterwards."""

    def backlog() -> float:
        return cluster.controllers[0].metrics()[f'kafka_server_statechangebacklog_value{{broker="{C}"}}']

    wanted = {("requested", f"late-{number}") for number in range(5)}
    cluster.pause(C)
    try:
        for number in range(5):
            create_for_the_rest(cluster, f"late-{number}")
        assert backlog() >= 10
        until(lambda: wanted <= behind(cluster, C) or None)  # what was asked last is in the files a moment later
    finally:
        cluster.resume(C)
    until(lambda: backlog() == 0 or None)
    until(lambda: not told(cluster, "--backlog") or None)
    found = cluster[C].metrics()
    assert found[f"{CHANGES}pending"] == 0
    assert (
        found[f'{CHANGES}received_total{{action="start-replica"}}']
        == found[f'{CHANGES}completed_total{{action="start-replica"}}']
    )
    assert found[f"{CHANGES}receivedtocompletedms_count"] > 0
    assert found[f"{CHANGES}requestedtoreceivedms_count"] > 0
    assert cluster.controllers[0].metrics()[f'{CHANGES}requested_total{{action="start-replica"}}'] >= 10


def behind(cluster: Cluster, broker: int) -> set[tuple[str, str]]:
    """Phase and topic of each change that the broker has not done."""
    return {(each["phase"], each["topic"]) for each in told(cluster, "--backlog", "--broker", str(broker))}


def create_for_the_rest(cluster: Cluster, name: str) -> None:
    """A topic on all three, though one of them does not hear of it."""
    placed = CreatableReplicaAssignment(partition_index=0, broker_ids=(A, B, C))
    new = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=(placed,))
    answer = ask(cluster[A].place.host, cluster[A].port, CreateTopicsRequest(topics=(new,), timeout_ms=20_000), 7)
    assert answer.topics[0].error_code == 0


def test_a_deletion_closes_every_replica(cluster: Cluster) -> None:
    """S3-40: whatever its epoch."""
    create(cluster, "gone", [(A, B)])
    in_sync(cluster, "gone")
    answer = ask(
        cluster[A].place.host,
        cluster[A].port,
        DeleteTopicsRequest(topics=(DeleteTopicState(name="gone"),), timeout_ms=20_000),
        6,
    )
    assert answer.responses[0].error_code == 0
    for broker in (A, B):
        assert [each["phase"] for each in phases(cluster, "gone", "close-replica", broker)][-1] == "completed"


def test_the_command_tells_it_in_words_and_refuses_what_is_no_such_file(cluster: Cluster) -> None:
    """B-T13, B78."""
    create(cluster, "words", [(A, B, C)])
    phases(cluster, "words", "start-replica", B)
    files = [file_of(cluster, each) for each in cluster.members]
    lines = headrace("state-changes", *files, "--topic", "words", "--broker", str(B), "--epoch", "0").out.splitlines()
    assert (
        sum(
            "broker 102 starts a replica of words-0: requested by node 1 (leader epoch 0, partition epoch 0" in each
            for each in lines
        )
        == 1
    )
    assert sum("broker 102 starts a replica of words-0: completed" in each for each in lines) == 1
    assert "this is no line" in refusal("state-changes", str(cluster[A].config))
    assert "No such file" in refusal("state-changes", files[0] + ".missing")
