"""Small requests that ask for much: the same thing again and again, or all that there is."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import replace

from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.wire.schema import Message
from tests.support.attacks import MIB, POLITE_TOPIC, Target, wait_until
from tests.support.positions import commit
from tests.support.raw import RawConnection, request_frame

_BROKER = 4


def ask_for_much(target: Target, request: Message, version: int) -> bytes:
    """The first bytes of the answer, or none where the node closes the connection."""
    with RawConnection(target.node.port) as peer:
        peer.socket.settimeout(300)
        peer.send(request_frame(request, version))
        with suppress(ConnectionError):
            return peer.socket.recv(4)
    return b""


def test_settings_of_one_broker_asked_for_again_and_again(target: Target) -> None:
    """A hundred times in less than a kilobyte: the loop was held for 0.4 s of CPU, and for eight seconds by 16 KB."""
    resources = (DescribeConfigsResource(resource_type=_BROKER, resource_name="1"),) * 100
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    with target.attacked(memory=256 * MIB):
        assert len(ask_for_much(target, request, 4)) == 4


def test_one_group_of_much_metadata_described_again_and_again(target: Target) -> None:
    """10,000 names in 30 KB: the answer would have 9 GB. It is refused once it has more than an answer may have."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(900_000))
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1_800_000,  # the most that a group allows: the member stays for as long as the test takes
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(protocol,),
    )
    with RawConnection(target.node.port) as peer:
        wait_until(lambda: not peer.ask(FindCoordinatorRequest(key="g"), 2).error_code, "the coordinator is known")
        joined = peer.ask(join, 2)
        assigned = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b""),)
        sync = SyncGroupRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=assigned
        )
        assert peer.ask(sync, 0).error_code == 0
    with target.attacked(memory=256 * MIB):
        assert ask_for_much(target, DescribeGroupsRequest(groups=("g",) * 10_000), 4) == b""


def test_one_position_with_metadata_asked_for_again_and_again(target: Target) -> None:
    """100,000 times the same partition in 400 KB: the answer would have 400 MB, and with more of them it took gigabytes."""
    commit(target, "positions", POLITE_TOPIC, partitions=1, metadata="x" * 4_000)
    topics = (OffsetFetchRequestTopics(name=POLITE_TOPIC, partition_indexes=(0,) * 100_000),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="positions", topics=topics),))
    with target.attacked(memory=384 * MIB):
        assert ask_for_much(target, request, 8) == b""


def test_all_positions_of_a_group_asked_for_again_and_again(target: Target) -> None:
    """5,000 positions, all of them a hundred times, in a request of a kilobyte: the loop was held for half a second."""
    target.create_topic("wide", 5_000)
    commit(target, "wide", "wide", partitions=5_000)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="wide", topics=None),) * 100)
    with target.attacked(memory=512 * MIB):
        assert len(ask_for_much(target, request, 8)) == 4
    # Each a fifth of it: the node still works for all of them when the attack is over, and goes on with what nobody waits for any more.
    fifth = replace(request, groups=request.groups[:20])
    with target.attacked(memory=512 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(20)]
        for peer in peers:
            peer.send(request_frame(fifth, 8))
        time.sleep(5.0)
