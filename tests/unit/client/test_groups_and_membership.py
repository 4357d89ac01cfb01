"""Does a consumer take part in a group, and are groups described?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.client import groups, routing
from headrace.client.blocking_consumer import BlockingConsumer
from headrace.client.groups import read_assignment
from headrace.client.membership import HEARTBEAT_MS, Membership, Phase, range_assignment
from headrace.client.talk import Answered, Ask, Unsupported
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.wire import codec
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from headrace.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.messages.leave_group import LeaveGroupRequest
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.wire.protocols.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.support.conversation import Cluster, knowing, message_of, view

COUNTS = {"t": 3}


def subscription(*topics: str, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + codec.encode(ConsumerProtocolSubscription(topics=topics), version)


def member() -> Membership:
    return Membership(knowing(), "g", ["t"])


def joined(leader: str = "me", *others: str) -> JoinGroupResponse:
    members = tuple(JoinGroupResponseMember(member_id=each, metadata=subscription("t")) for each in ("me", *others))
    return JoinGroupResponse(generation_id=4, protocol_name="range", leader=leader, member_id="me", members=members)


def build(call: Any) -> Any:
    return call.build(5)


def stable() -> Membership:
    made = member()
    made.answered(joined(), COUNTS)
    share = build(made.next_call()).assignments[0].assignment
    made.answered(SyncGroupResponse(assignment=share), COUNTS)
    return made


def test_the_leader_shares_out_and_everyone_takes_what_sync_brings() -> None:
    """The classic protocol: JoinGroup, SyncGroup, then heartbeats."""
    made = member()
    join = build(made.next_call())
    assert isinstance(join, JoinGroupRequest)
    assert [each.name for each in join.protocols] == ["range"]
    assert made.answered(joined("me", "other"), COUNTS) is False
    sync = build(made.next_call())
    assert isinstance(sync, SyncGroupRequest)
    shares = {each.member_id: read_assignment(each.assignment) for each in sync.assignments}
    assert shares == {"me": (TopicPartition("t", 0), TopicPartition("t", 1)), "other": (TopicPartition("t", 2),)}
    assert made.answered(SyncGroupResponse(assignment=sync.assignments[0].assignment), COUNTS) is True
    assert (made.phase, made.assignment) == (Phase.STABLE, shares["me"])


def test_a_member_that_does_not_lead_sends_no_shares() -> None:
    """Only the leader knows the others."""
    made = member()
    made.answered(joined("other"), COUNTS)
    assert build(made.next_call()).assignments == ()


def test_kip_394_a_member_without_an_id_joins_again_with_the_one_it_is_given() -> None:
    """KIP-394: MEMBER_ID_REQUIRED."""
    made = member()
    made.answered(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"), COUNTS)
    assert build(made.next_call()).member_id == "given"


def test_heartbeats_go_every_three_seconds_and_a_rebalance_joins_again() -> None:
    """REBALANCE_IN_PROGRESS keeps the member's id."""
    made = stable()
    assert made.next_call() is None
    made._session.now_ms += HEARTBEAT_MS
    assert isinstance(build(made.next_call()), HeartbeatRequest)
    made.answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), COUNTS)
    again = build(made.next_call())
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me"


def test_a_member_that_was_removed_joins_as_a_new_one() -> None:
    """UNKNOWN_MEMBER_ID."""
    made = stable()
    made.answered(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), COUNTS)
    assert build(made.next_call()).member_id == ""


def test_a_group_that_refuses_ends_the_consumer() -> None:
    """Errors that will not pass."""
    with pytest.raises(PeerError) as caught:
        member().answered(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED), COUNTS)
    assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_other_topics_join_again_and_leaving_names_the_member() -> None:
    """A pattern may match more topics later; LeaveGroup has two forms."""
    made = stable()
    phases = []
    for topics in (["t"], ["t", "u"]):
        made.resubscribe(topics)
        phases.append(made.phase)
    assert phases == [Phase.STABLE, Phase.UNJOINED]
    call = made.leaving()
    assert call is not None
    assert (call.build(5).members[0].member_id, call.build(2)) == (
        "me",
        LeaveGroupRequest(group_id="g", member_id="me"),
    )
    assert member().leaving() is None


def test_a_sync_that_got_lost_joins_again() -> None:
    """The generation may have moved on."""
    made = member()
    made.answered(joined(), COUNTS)
    made.lost()
    assert made.phase is Phase.UNJOINED


def test_range_gives_consecutive_blocks_the_first_members_one_more() -> None:
    """Kafka's range assignor: by topic, members in the order of their ids, only subscribers of the topic."""
    shares = range_assignment({"b": ["t", "u"], "a": ["t"], "c": ["t"]}, {"t": 5, "u": 2})
    assert shares == {
        "a": [TopicPartition("t", 0), TopicPartition("t", 1)],
        "b": [TopicPartition("t", 2), TopicPartition("t", 3), TopicPartition("u", 0), TopicPartition("u", 1)],
        "c": [TopicPartition("t", 4)],
    }


class Coordinator:
    """Stands for the client of a consumer: it makes the consumer the leader of a group with one other member, and notes what is asked."""

    def __init__(self, others: tuple[str, ...]) -> None:
        self.session = knowing()
        self.others = others
        self.looked_up: list[Any] = []
        self.shares: dict[str, Any] = {}

    def run(self, talk: Any, *asked: Any, **_: Any) -> Any:
        if talk is routing.refresh:
            self.looked_up.append(asked[0])
            return {name: view(name, (1, 1)) for name in asked[0] or ("t", "u")}
        request = build(asked[1])
        if isinstance(request, JoinGroupRequest):
            other = JoinGroupResponseMember(member_id="other", metadata=subscription(*self.others))
            answer = joined("me")
            return JoinGroupResponse(generation_id=4, leader="me", member_id="me", members=(*answer.members, other))
        if isinstance(request, SyncGroupRequest):
            self.shares = {each.member_id: read_assignment(each.assignment) for each in request.assignments}
            return SyncGroupResponse()
        return HeartbeatResponse()


@pytest.mark.parametrize(
    ("others", "looked_up"),
    [(("u",), ["u"]), (("u", "t"), ["u"]), (("u", *map(str, range(2_000))), None)],
    ids=["another", "both", "very many"],
)
def test_a_leader_looks_up_the_topics_of_other_members(others: tuple[str, ...], looked_up: Any) -> None:
    """As Kafka's consumers do: a member got nothing of a topic that the leader had not subscribed to, and nobody else did."""
    client: Any = Coordinator(others)
    consumer = BlockingConsumer(client, group_id="g", topics=["t"])
    consumer._subscribe()
    consumer._take_part()
    assert client.looked_up == [("t",), looked_up]
    assert set(client.shares["other"]) >= {TopicPartition("u", 0), TopicPartition("u", 1)}
    assert TopicPartition("t", 0) in client.shares["me"]


def test_b29_a_member_that_subscribes_to_very_many_topics_does_not_hold_up_the_leader() -> None:
    """B29: each of its topics was looked for in all of them, 4 s for 20,000 and 25 times as long for five times as many; the leader missed its session."""

    class Names(tuple[str, ...]):
        def __contains__(self, name: object) -> bool:
            raise AssertionError("looked for one by one")

    found = range_assignment({"me": ("t",), "much": Names(f"topic-{number}" for number in range(100_000))}, COUNTS)
    assert found == {"me": [TopicPartition("t", number) for number in range(3)], "much": []}


def test_b29_subscriptions_and_assignments_that_are_rubbish_stand_for_none() -> None:
    """B29: other members write these bytes; the leader and the tools must survive them."""
    for rubbish in (b"", b"\0", b"\0\1", b"\0\1\xff\xff\xff", b"\xff\xff" + bytes(20), b"\x7f\xff" + b"\xff" * 40):
        assert read_assignment(rubbish) == ()
        made = member()
        bad = JoinGroupResponseMember(member_id="bad", metadata=rubbish)
        good = JoinGroupResponseMember(member_id="me", metadata=subscription("t"))
        made.answered(JoinGroupResponse(generation_id=1, leader="me", member_id="me", members=(bad, good)), COUNTS)
        shares = {each.member_id: read_assignment(each.assignment) for each in build(made.next_call()).assignments}
        assert shares == {"bad": (), "me": tuple(TopicPartition("t", number) for number in range(3))}


def test_a_classic_group_is_described_by_a_node_that_has_no_new_ones() -> None:
    """ConsumerGroupDescribe is tried first; a node without it is asked with DescribeGroups."""
    known = knowing()
    known.coordinators["g"] = 1
    one = DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=b"rubbish!")
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=(one,)
    )

    def answer(ask: Ask) -> Any:
        if isinstance(message_of(ask, 0), ConsumerGroupDescribeRequest):
            return Unsupported(api_key=69, reason="The node does not support ConsumerGroupDescribe")
        return Answered(response=DescribeGroupsResponse(groups=(group,)), version=5)

    found = Cluster(known, answer).hold(groups.describe_group(known, "g"))
    assert (found.kind, found.state, found.assignor, found.members[0].assignment) == ("Classic", "Stable", "range", ())


@pytest.mark.parametrize("count", [0, 2])
def test_b29_an_answer_about_no_group_or_several_is_refused(count: int) -> None:
    """B29: one was asked for; the tools ended with a traceback."""
    known = knowing()
    known.coordinators["g"] = 1
    described = DescribeGroupsResponse(groups=(DescribedGroup(group_id="g", group_state="Empty"),) * count)
    deleted = DeleteGroupsResponse(results=(DeletableGroupResult(group_id="g"),) * count)

    def answer(ask: Ask) -> Any:
        message = message_of(ask, 0)
        if isinstance(message, ConsumerGroupDescribeRequest):
            return Unsupported(api_key=69, reason="no")
        return Answered(response=deleted if isinstance(message, DeleteGroupsRequest) else described, version=5)

    with pytest.raises(PeerError, match=f"tells of {count} where one was asked for"):
        Cluster(known, answer).hold(groups.describe_group(known, "g"))
    error = Cluster(known, answer).hold(groups.delete_groups(known, ["g"]))["g"]
    assert f"tells of {count}" in str(error)


def test_a_dead_group_is_one_that_does_not_exist() -> None:
    """DescribeGroups up to version 5 shows a group nobody knows as Dead."""
    known = knowing()
    known.coordinators["g"] = 1
    dead = DescribeGroupsResponse(groups=(DescribedGroup(group_id="g", group_state="Dead"),))

    def answer(ask: Ask) -> Any:
        is_new = isinstance(message_of(ask, 0), ConsumerGroupDescribeRequest)
        return Unsupported(api_key=69, reason="no") if is_new else Answered(response=dead, version=5)

    with pytest.raises(PeerError, match="Group g not found"):
        Cluster(known, answer).hold(groups.describe_group(known, "g"))
