"""Whom does the explanation ask, and what does it make of each answer?"""

from __future__ import annotations

from typing import Any

from headrace.client.talk import Address, Answered, Ask, Lost
from headrace.core.error_code import ErrorCode
from headrace.explain.collect import collect
from headrace.explain.facts import Seen
from headrace.wire.messages import describe_quorum as wire
from tests.support.conversation import FIRST, Cluster, message_of, session

SECOND, THIRD = Address(host="two", port=9093), Address(host="three", port=9093)


def view(node_id: int, *links: wire.NodeLink) -> wire.NodeView:
    voters = tuple(
        wire.NodeVoter(voter_id=number, end_points=(wire.NodeEndPoint(name="C", host=at.host, port=at.port),))
        for number, at in ((2, SECOND), (3, THIRD))
    )
    return wire.NodeView(node_id=node_id, voters=voters, links=links, wall_clock_ms=5_000)


def told(found: wire.NodeView) -> Answered:
    return Answered(response=wire.DescribeQuorumResponse(node_views=(found,)), version=2)


def leading(leader_id: int) -> wire.DescribeQuorumResponse:
    part = wire.ResponsePartitionData(leader_id=leader_id, leader_epoch=4, high_watermark=9)
    return wire.DescribeQuorumResponse(
        topics=(wire.ResponseTopicData(topic_name="__cluster_metadata", partitions=(part,)),)
    )


def test_it_asks_where_the_answers_say_that_voters_are() -> None:
    """S4-13, S4-54: from one address to all voters, and to where links go; each address once."""
    strange = wire.NodeLink(peer_id=3, host="elsewhere", port=7)
    answers: dict[Address, Any] = {
        FIRST: told(view(101)),
        SECOND: told(view(2, strange)),
        THIRD: Lost(reason="connection refused"),
        Address(host="elsewhere", port=7): Lost(reason="timed out"),
    }
    found = session()
    cluster = Cluster(found, lambda ask: answers[ask.address])
    seen = cluster.hold(collect(found))
    assert [(each.address, each.expected_id, each.failure) for each in seen] == [
        ("one:9092", -1, ""),
        ("two:9093", 2, ""),
        ("three:9093", 3, "connection refused"),
        ("elsewhere:7", 3, "timed out"),
    ]
    assert [message_of(ask).wants_node_view for ask in cluster.asked] == [True] * 4
    assert [message_of(ask).topics for ask in cluster.asked] == [()] * 4
    assert seen[0].clock_ms == 5_000


def test_a_node_without_a_view_is_asked_as_kafkas_tools_ask() -> None:
    """S4-51: it leads, or it says that it does not."""

    def answer(ask: Ask) -> Any:
        message = message_of(ask)
        if ask.address == FIRST:
            return told(view(1))
        if not message.topics:
            return Answered(response=wire.DescribeQuorumResponse(), version=2)
        if ask.address == SECOND:
            return Answered(response=leading(2), version=2)
        part = wire.ResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic = wire.ResponseTopicData(topic_name="__cluster_metadata", partitions=(part,))
        return Answered(response=wire.DescribeQuorumResponse(topics=(topic,)), version=2)

    found = session()
    seen = Cluster(found, answer).hold(collect(found))
    assert seen[1:] == [
        Seen(address="two:9093", expected_id=2, leader_id=2, epoch=4, high_watermark=9),
        Seen(address="three:9093", expected_id=3),
    ]


def test_nobody_can_make_it_ask_for_ever() -> None:
    """B-W06: answers that name ever new addresses are followed to an end."""

    def answer(ask: Ask) -> Any:
        number = int(ask.address.host.removeprefix("n") or 0) if ask.address.host.startswith("n") else 0
        links = tuple(wire.NodeLink(peer_id=9, host=f"n{number * 40 + each}", port=1) for each in range(1, 41))
        return told(wire.NodeView(node_id=number, links=links))

    found = session()
    cluster = Cluster(found, answer)
    cluster.hold(collect(found))
    assert len(cluster.asked) <= 128
