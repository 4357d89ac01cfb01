"""The same conversations about groups with any broker: a real Kafka 4.3.1 answered them for tests/golden/groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.core.ids import Uuid
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.integration.groups.wire_session import Connection, World

TOPIC = "alpha"
SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x05alpha" + b"\xff\xff\xff\xff"
LATEST = {"join": 9, "sync": 5, "heartbeat": 4, "leave": 5, "commit": 9, "fetch": 9}
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "300",
    "group.max.size": "5",
    "offset.metadata.max.bytes": "64",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
}
"""What the broker must be started with."""


def join(group: str, member_id: str = "", **changes: Any) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),),
    )
    return replace(request, **changes)


def sync(group: str, joined: Any, assignment: dict[str, bytes] | None = None, **changes: Any) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=key, assignment=value) for key, value in (assignment or {}).items()
        ),
    )
    return replace(request, **changes)


def heartbeat(group: str, joined: Any, **changes: Any) -> HeartbeatRequest:
    request = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    return replace(request, **changes)


def leave(group: str, *members: MemberIdentity) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, members=members)


def commit(
    group: str, *, topic: str = TOPIC, partitions: tuple[int, ...] = (0,), **changes: Any
) -> OffsetCommitRequest:
    metadata = changes.pop("metadata", "")
    topic_id = changes.pop("topic_id", Uuid())
    request = OffsetCommitRequest(
        group_id=group,
        topics=(
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=100 + index,
                        committed_leader_epoch=3,
                        committed_metadata=metadata,
                    )
                    for index in partitions
                ),
            ),
        ),
    )
    return replace(request, **changes)


def fetch(group: str, version: int, topics: dict[str, tuple[int, ...]] | None, **changes: Any) -> OffsetFetchRequest:
    if version < 8:
        flat = (
            None
            if topics is None
            else tuple(
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
            )
        )
        return replace(OffsetFetchRequest(group_id=group, topics=flat), **changes)
    nested = (
        None
        if topics is None
        else tuple(OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items())
    )
    return replace(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=nested),)), **changes)


def member(world: World, group: str, connection: Connection, **changes: Any) -> Any:
    """Join as a dynamic member: ask for an id, join with it; the answer to the second request."""
    first = connection.ask(join(group, **changes), 9)
    return connection.ask(join(group, first.member_id, **changes), 9)


def strangers(world: World) -> None:
    """Requests about groups that there are not, of every version."""
    world.wait_for_coordinator("nobody", "")
    nobody = type("Joined", (), {"generation_id": 1, "member_id": "who"})
    for version in range(10):
        world.ask("join of a stranger", join("nobody", "who"), version)
    for version in range(6):
        world.ask("sync of a stranger", sync("nobody", nobody), version)
    world.ask("sync without a protocol", sync("nobody", nobody, protocol_name=None), 5)
    for version in range(5):
        world.ask("heartbeat of a stranger", heartbeat("nobody", nobody), version)
    for version in range(3):
        world.ask("leave of a stranger", LeaveGroupRequest(group_id="nobody", member_id="who"), version)
    for version in range(3, 6):
        world.ask("leave of strangers", leave("nobody", MemberIdentity(member_id="a"), MemberIdentity()), version)


def strangers_offsets(world: World) -> None:
    """Positions of groups that there are not, of every version."""
    world.wait_for_coordinator("nobody", "")
    for version in range(2, 10):
        world.ask("commit of a stranger", commit("nobody", generation_id_or_member_epoch=1, member_id="who"), version)
    for version in range(1, 10):
        world.ask("fetch of nothing", fetch("nobody", version, {TOPIC: (0, 9), "none": (1,)}), version)
    for version in range(2, 10):
        world.ask("fetch of all of nothing", fetch("nobody", version, None), version)
    for version in range(7):
        world.ask("describe nobody", DescribeGroupsRequest(groups=("nobody", "")), version)
    for version in range(3):
        world.ask("delete nobody", DeleteGroupsRequest(groups_names=("nobody", "", "nobody")), version)
    topics = (OffsetDeleteRequestTopic(name=TOPIC, partitions=(OffsetDeleteRequestPartition(partition_index=0),)),)
    world.ask("offset delete of nobody", OffsetDeleteRequest(group_id="nobody", topics=topics), 0)


def bad_requests(world: World) -> None:
    """Requests that are wrong whatever the group's state."""
    world.wait_for_coordinator("bad", "")
    nobody = type("Joined", (), {"generation_id": 1, "member_id": "who"})
    world.ask("join of no group", join(""), 9)
    world.ask("sync of no group", sync("", nobody), 5)
    world.ask("heartbeat of no group", heartbeat("", nobody), 4)
    world.ask("leave of no group", leave("", MemberIdentity(member_id="a")), 5)
    world.ask("offset delete of no group", OffsetDeleteRequest(group_id=""), 0)
    for timeout in (5_999, 1_800_001, -1, 2**31 - 1):
        world.ask(f"session timeout {timeout}", join("bad", session_timeout_ms=timeout), 9)
        world.ask(f"session timeout {timeout}", join("bad", "m", session_timeout_ms=timeout), 3)
    for version in (4, 7, 9):
        world.ask("no protocol type", join("bad", protocol_type=""), version)
        world.ask("no protocols", join("bad", protocols=()), version)
    world.ask("describe what is left", DescribeGroupsRequest(groups=("bad",)), 6)
    world.ask("commit to an unknown topic", commit("bad", topic="none", partitions=(0, 1)), 9)
    world.ask("commit to an unknown partition", commit("bad", partitions=(0, 77, -1)), 9)
    world.ask("commit to an unknown topic id", commit("bad", topic_id=Uuid(b"x" * 16)), 10)
    world.ask("commit with long metadata", commit("bad", metadata="x" * 65), 9)
    world.ask("commit of nothing", OffsetCommitRequest(group_id="bad"), 9)
    world.ask("commit to no group", commit(""), 9)
    world.ask("fetch of no group", fetch("", 9, {TOPIC: (0,)}), 9)
    world.ask("fetch of no topics", fetch("bad", 9, {}), 9)
    for key_type in (0, 1, 2, 7):
        for version in (3, 4, 6):
            if key_type != 1:
                keys: dict[str, Any] = {"key": "bad"} if version < 4 else {"coordinator_keys": ("bad", "")}
                request = FindCoordinatorRequest(key_type=key_type, **keys)
                if key_type == 0:
                    world.ask(f"find coordinator of type {key_type}", request, version)


def life_of_a_group(world: World) -> None:
    """Two dynamic members: join, assign, commit, rejoin, leave."""
    world.wait_for_coordinator("life")
    one, two = world.connect("one"), world.connect("two")
    first = one.ask(join("life"), 9)
    world.transcript.note("an id first", first, 9)
    leader = world.ask("alone", join("life", first.member_id), 9, one)
    world.ask("describe completing", DescribeGroupsRequest(groups=("life",), include_authorized_operations=True), 5)
    world.ask("commit while completing", commit("life", member_id=leader.member_id, generation_id_or_member_epoch=1), 9)
    world.ask("sync with another protocol", sync("life", leader, protocol_name="sticky"), 5, one)
    world.ask("sync with another type", sync("life", leader, protocol_type="connect"), 5, one)
    world.ask("sync of another generation", sync("life", leader, generation_id=9), 5, one)
    world.ask("sync of another member", sync("life", leader, member_id="who"), 5, one)
    world.ask("the leader assigns", sync("life", leader, {leader.member_id: b"mine", "who": b"x"}), 5, one)
    world.ask("describe stable", DescribeGroupsRequest(groups=("life",)), 6)
    world.ask("heartbeat", heartbeat("life", leader), 4)
    world.ask("heartbeat of another generation", heartbeat("life", leader, generation_id=0), 4)
    world.ask("heartbeat of another instance", heartbeat("life", leader, group_instance_id="i"), 4)
    world.ask("commit", commit("life", member_id=leader.member_id, generation_id_or_member_epoch=1, metadata="note"), 9)
    world.ask(
        "commit of another generation", commit("life", member_id=leader.member_id, generation_id_or_member_epoch=2), 9
    )
    world.ask("commit without a generation", commit("life", member_id=leader.member_id), 9)
    world.ask("commit of another member", commit("life", member_id="who", generation_id_or_member_epoch=1), 9)
    world.ask("commit from outside", commit("life"), 9)
    world.ask("commit of another instance", commit("life", member_id=leader.member_id, group_instance_id="i"), 9)
    for version in range(1, 10):
        world.ask("fetch", fetch("life", version, {TOPIC: (0, 1)}), version)
    world.ask("fetch stable", fetch("life", 9, {TOPIC: (0, 1)}, require_stable=True), 9)
    world.ask("fetch all", fetch("life", 9, None), 9)
    world.ask("another type may not join", join("life", protocol_type="connect"), 9)
    world.ask("another protocol may not join", join("life", protocols=(JoinGroupRequestProtocol(name="x"),)), 9)
    topics = (OffsetDeleteRequestTopic(name=TOPIC, partitions=(OffsetDeleteRequestPartition(partition_index=0),)),)
    world.ask("offset delete of what is read", OffsetDeleteRequest(group_id="life", topics=topics), 0)
    world.ask("delete with members", DeleteGroupsRequest(groups_names=("life",)), 2)
    newcomer = two.ask(join("life"), 9)
    two.send(join("life", newcomer.member_id), 9)
    _until_rebalance(world, "life", leader)
    world.ask("describe preparing", DescribeGroupsRequest(groups=("life",)), 6)
    world.ask("heartbeat in a rebalance", heartbeat("life", leader), 4)
    world.ask("sync in a rebalance", sync("life", leader), 5, one)
    world.ask("commit in a rebalance", commit("life", member_id=leader.member_id, generation_id_or_member_epoch=1), 9)
    again = world.ask("the leader joins again", join("life", leader.member_id), 9, one)
    follower = two.receive()
    world.transcript.note("a follower joins", follower, 9)
    world.ask("the follower repeats itself", join("life", follower.member_id), 9, two)
    two.send(sync("life", follower), 5)
    world.ask(
        "the leader assigns to both", sync("life", again, {again.member_id: b"1", follower.member_id: b"2"}), 5, one
    )
    world.transcript.note("the follower's part", two.receive(), 5)
    world.ask("the follower repeats itself when stable", join("life", follower.member_id), 9, two)
    for states in (("Stable",), ("stable ", "EMPTY"), ("Dead",), ("what",)):
        answer = world.main.ask(ListGroupsRequest(states_filter=states), 4)
        kept = tuple(each for each in answer.groups if each.group_id == "life")
        world.transcript.note(f"list {states}", replace(answer, groups=kept), 4)
    for types in (("classic",), ("CLASSIC", "consumer"), ("consumer",), ("what",)):
        answer = world.main.ask(ListGroupsRequest(types_filter=types), 5)
        kept = tuple(each for each in answer.groups if each.group_id == "life")
        world.transcript.note(f"list {types}", replace(answer, groups=kept), 5)
    leaving = (
        MemberIdentity(member_id=follower.member_id),
        MemberIdentity(member_id=follower.member_id),
        MemberIdentity(),
    )
    world.ask("leave twice", leave("life", *leaving), 5)
    world.ask("the old protocol leaves", LeaveGroupRequest(group_id="life", member_id=again.member_id), 2)
    world.ask("describe empty", DescribeGroupsRequest(groups=("life",)), 6)
    world.ask("heartbeat of who left", heartbeat("life", again), 4)
    world.ask("sync of who left", sync("life", again), 5)
    world.ask("commit of who left", commit("life", member_id=again.member_id, generation_id_or_member_epoch=2), 9)
    world.ask("commit from outside when empty", commit("life", partitions=(1,)), 9)
    world.ask("offset delete", OffsetDeleteRequest(group_id="life", topics=topics), 0)
    world.ask("fetch after offset delete", fetch("life", 9, {TOPIC: (0, 1)}), 9)
    world.ask("delete", DeleteGroupsRequest(groups_names=("life",)), 2)
    world.ask("fetch after delete", fetch("life", 9, {TOPIC: (0, 1)}), 9)
    world.ask("describe after delete", DescribeGroupsRequest(groups=("life",)), 6)


def static_members(world: World) -> None:
    """Members that keep their place, and the fences around it."""
    world.wait_for_coordinator("static")
    one, two, back = world.connect("one"), world.connect("two"), world.connect("back")
    first = world.ask("a static member", join("static", group_instance_id="i1"), 9, one)
    two.send(join("static", group_instance_id="i2"), 9)
    _until_rebalance(world, "static", first, group_instance_id="i1")
    leader = world.ask("again", join("static", first.member_id, group_instance_id="i1"), 9, one)
    follower = two.receive()
    world.transcript.note("a second", follower, 9)
    two.send(sync("static", follower, group_instance_id="i2"), 5)
    parts = {leader.member_id: b"1", follower.member_id: b"2"}
    world.ask("the leader assigns", sync("static", leader, parts, group_instance_id="i1"), 5, one)
    world.transcript.note("the follower's part", two.receive(), 5)
    returned = world.ask("the follower comes back", join("static", group_instance_id="i2"), 9, back)
    world.ask("and has its part", sync("static", returned, group_instance_id="i2"), 5, back)
    world.ask("old heartbeat", heartbeat("static", follower, group_instance_id="i2"), 4)
    world.ask("old heartbeat without instance", heartbeat("static", follower), 4)
    world.ask("old sync", sync("static", follower, group_instance_id="i2"), 5)
    world.ask("old join", join("static", follower.member_id, group_instance_id="i2"), 9)
    world.ask("old join, old client", join("static", follower.member_id, group_instance_id="i2"), 5)
    stale = {"member_id": follower.member_id, "group_instance_id": "i2", "generation_id_or_member_epoch": 2}
    world.ask("old commit", commit("static", **stale), 9)
    world.ask("unknown instance", join("static", "who", group_instance_id="i9"), 9)
    world.ask("old leave", leave("static", MemberIdentity(member_id=follower.member_id, group_instance_id="i2")), 5)
    leads = world.ask("the leader comes back", join("static", group_instance_id="i1"), 9, back)
    old = world.ask("and again, an old client", join("static", group_instance_id="i1"), 8, back)
    world.ask("older", join("static", group_instance_id="i1"), 5, back)
    world.ask("the generation goes on", heartbeat("static", returned, group_instance_id="i2"), 4)
    assert leads.member_id != old.member_id
    world.ask("describe", DescribeGroupsRequest(groups=("static",)), 6)
    away = (
        MemberIdentity(group_instance_id="i2"),
        MemberIdentity(group_instance_id="i9"),
        MemberIdentity(group_instance_id="i1"),
    )
    world.ask("sent away", leave("static", *away), 5)
    world.ask("nobody is left", DescribeGroupsRequest(groups=("static",)), 6)


def by_topic_id(world: World) -> None:
    """Positions by topic id, and of a topic that was made anew."""
    world.wait_for_coordinator("ids")
    topic_id = world.topic(TOPIC, 2)
    world.ask("commit by id", commit("ids", topic_id=topic_id, partitions=(0, 1, 5)), 10)
    world.ask("fetch by name", fetch("ids", 9, {TOPIC: (0, 1, 5)}), 9)

    def by_id(*ids: Uuid) -> OffsetFetchRequest:
        topics = tuple(OffsetFetchRequestTopics(topic_id=each, partition_indexes=(0, 1, 5)) for each in ids)
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="ids", topics=topics),))

    world.ask("fetch by id", by_id(topic_id), 10)
    world.ask("fetch by unknown id", by_id(Uuid(b"x" * 16), topic_id), 10)
    world.ask("fetch stable by unknown id", replace(by_id(Uuid(b"x" * 16), topic_id), require_stable=True), 10)
    everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="ids", topics=None),))
    world.ask("fetch all by id", everything, 10)
    groups = tuple(OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("ids", "nobody", ""))
    world.ask("fetch of many groups", OffsetFetchRequest(groups=groups), 9)
    world.ask("commit with retention", commit("ids", partitions=(1,), retention_time_ms=1_000_000), 4)
    world.ask("delete", DeleteGroupsRequest(groups_names=("ids",)), 2)


def full_group(world: World) -> None:
    """More members than `group.max.size`."""
    world.wait_for_coordinator("full")
    connections = [world.connect(f"m{index}") for index in range(5)]
    ids = [connection.ask(join("full"), 9).member_id for connection in connections]
    for connection, member_id in zip(connections, ids, strict=True):
        connection.send(join("full", member_id), 9)
    joined = [connection.receive() for connection in connections]
    assert {each.generation_id for each in joined} == {1}
    world.ask("one too many", join("full"), 3)
    world.ask("one too many, given an id first", join("full"), 9)
    world.ask("one too many, with a made-up id", join("full", "who"), 9)
    world.ask("all leave", leave("full", *(MemberIdentity(member_id=member_id) for member_id in ids)), 5)


SCENARIOS: tuple[Callable[[World], None], ...] = (
    strangers,
    strangers_offsets,
    bad_requests,
    life_of_a_group,
    static_members,
    by_topic_id,
    full_group,
)


def play(host: str, port: int) -> list[str]:
    """All conversations with one broker, as text."""
    world = World(host, port)
    try:
        world.topic(TOPIC, 2)
        for scenario in SCENARIOS:
            world.transcript.lines.append(f"# {scenario.__name__}")
            scenario(world)
    finally:
        world.close()
    return world.transcript.lines


def _until_rebalance(world: World, group: str, joined: Any, **changes: Any) -> None:
    """Wait until the group prepares a rebalance: the newcomer's request has arrived."""
    while world.main.ask(heartbeat(group, joined, **changes), 4).error_code == 0:
        time.sleep(0.01)
