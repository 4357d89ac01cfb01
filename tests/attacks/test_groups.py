"""Groups whose members say much of themselves, and members that come back all the time."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.wire.messages.sync_group import SyncGroupRequest
from tests.support.attacks import MIB, Target, wait_until
from tests.support.positions import commit
from tests.support.raw import RawConnection, request_frame, row_of

_DELAY_MS = 2_000


@pytest.fixture(scope="module")
def quick() -> Iterator[Target]:
    """A node whose offsets topic is there, and whose groups begin soon."""
    with Target(properties={"group.initial.rebalance.delay.ms": str(_DELAY_MS)}) as running:
        with RawConnection(running.node.port) as peer:
            find = FindCoordinatorRequest(key="g")
            wait_until(lambda: not peer.ask(find, 2).error_code, "the coordinator is known")
        yield running


def joining(group: str, metadata: bytes, *, instance: str | None = None) -> JoinGroupRequest:
    """A JoinGroup of a consumer."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


def test_groups_with_very_many_positions_are_deleted_and_so_is_their_topic(quick: Target) -> None:
    """100,000 positions: each deletion held the loop for 0.4 s."""
    quick.create_topic("wide", 5_000)
    for number in range(20):
        commit(quick, f"wide-{number}", "wide", partitions=5_000)
    with quick.attacked(memory=128 * MIB), RawConnection(quick.node.port) as peer:
        peer.socket.settimeout(120)
        deleted = peer.ask(DeleteGroupsRequest(groups_names=tuple(f"wide-{number}" for number in range(10))), 2)
        assert {result.error_code for result in deleted.results} == {0}
        topics = (DeleteTopicState(name="wide"),)
        assert peer.ask(DeleteTopicsRequest(topics=topics, timeout_ms=60_000), 6).responses[0].error_code == 0
        wait_until(lambda: _positions(peer, "wide-19") == 0, "positions are gone with their topic")


def _positions(peer: RawConnection, group: str) -> int:
    found = peer.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)), 8)
    return sum(len(topic.partitions) for topic in found.groups[0].topics)


def test_a_subscription_of_two_million_topics(quick: Target) -> None:
    """18 MB; the loop was held for a second when the generation began."""
    count = 2_000_000
    names = b"".join(struct.pack(">h7s", 7, b"%07d" % number) for number in range(count))
    metadata = struct.pack(">hi", 0, count) + names + struct.pack(">i", -1)
    with quick.attacked(memory=256 * MIB), RawConnection(quick.node.port) as peer:
        peer.socket.settimeout(60)
        assert peer.ask(joining("many-topics", metadata), 2).error_code == 0


def test_static_members_that_come_back_all_at_once(quick: Target) -> None:
    """KIP-345: each time the group is written anew; 300 at once held the loop for 0.75 s."""
    row = row_of(joining("static", b""))
    with ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(quick.node.port)) for _ in range(200)]
        asked = [request_frame(joining("static", bytes(2_000), instance=f"i{each}"), 5) for each in range(len(peers))]
        for peer, data in zip(peers, asked, strict=True):
            peer.socket.settimeout(60)
            peer.send(data)
        joined = [peer.answer(row, 5) for peer in peers]
        leader = next(one for one in joined if one.leader == one.member_id)
        sync = SyncGroupRequest(group_id="static", generation_id=leader.generation_id, member_id=leader.member_id)
        assert peers[0].ask(sync, 0).error_code == 0
        with quick.attacked(memory=64 * MIB):
            for _ in range(5):
                for peer, data in zip(peers, asked, strict=True):
                    peer.send(data)
                assert {peer.answer(row, 5).error_code for peer in peers} == {0}


def test_a_group_that_is_too_large_to_be_written(quick: Target) -> None:
    """80 MB of one record held the loop for half a second, and lay in the offsets topic then, to be read at each start."""
    join = joining("large", bytes(2_000_000))
    row = row_of(join)
    with ExitStack() as opened, quick.attacked(memory=384 * MIB):
        peers = [opened.enter_context(RawConnection(quick.node.port)) for _ in range(40)]
        for peer in peers:
            peer.socket.settimeout(60)
            peer.send(request_frame(join, 2))
            time.sleep(0.01)
        joined = [peer.answer(row, 2) for peer in peers]
        leader = next(place for place, one in enumerate(joined) if one.leader == one.member_id)
        sync = SyncGroupRequest(
            group_id="large", generation_id=joined[leader].generation_id, member_id=joined[leader].member_id
        )
        assert peers[leader].ask(sync, 0).error_code == -1
