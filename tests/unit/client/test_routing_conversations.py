"""Do conversations find the right node, follow it when it moves, and give up in time?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.client import admin_cluster, admin_configs, offsets, routing
from headrace.client.admin_configs import Resource, ResourceType
from headrace.client.cluster_view import TopicView
from headrace.client.offsets import LATEST, CommittedOffset, ListedOffset
from headrace.client.retry import error_of
from headrace.client.routing import ask_any, ask_coordinator, refresh
from headrace.client.session import Session
from headrace.client.talk import Answered, Ask, Lost, Unsupported
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.support.conversation import FIRST, SECOND, TOPIC_ID, Cluster, knowing, message_of, session

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def metadata(leaders: dict[int, int], *, error_code: int = 0, epoch: int = 5) -> Answered:
    brokers = tuple(
        MetadataResponseBroker(node_id=node, host=host, port=9092) for node, host in ((1, "one"), (2, "two"))
    )
    parts = tuple(
        MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=epoch)
        for number, leader in leaders.items()
    )
    topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, error_code=error_code, partitions=parts)
    return Answered(
        response=MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=(topic,)), version=12
    )


def listed(offset_of: dict[int, int], *, error_code: int = 0) -> Answered:
    parts = tuple(
        ListOffsetsPartitionResponse(partition_index=number, offset=offset, error_code=error_code, leader_epoch=5)
        for number, offset in offset_of.items()
    )
    return Answered(
        response=ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=parts),)), version=9
    )


def test_nodes_are_asked_in_turn_until_one_answers() -> None:
    """A node that does not answer costs a try, not the call."""
    known = knowing()
    cluster = Cluster(
        known, lambda ask: Lost(reason="cut") if ask.address == FIRST else Answered(response=1, version=4)
    )
    assert cluster.hold(ask_any(known, ListGroupsRequest())) == Answered(response=1, version=4)
    assert {ask.address for ask in cluster.asked} == {FIRST, SECOND}


def test_b78_nobody_at_the_address_is_told_at_once() -> None:
    """B78: no cluster there. A refused connection to the only bootstrap address is no reason to wait a minute."""
    cluster = Cluster(session(), lambda ask: Lost(reason="connection refused"))
    with pytest.raises(OperatorError, match="one:9092: connection refused"):
        cluster.hold(refresh(cluster.session))
    assert cluster.paused_ms == 0


def test_b29_a_partition_that_metadata_name_twice_is_there_once() -> None:
    """B29: a reader of all partitions would have its rows twice."""
    known = knowing()
    twice = metadata({0: 1, 1: 2}).response
    (topic,) = twice.topics
    parts = (*topic.partitions, *topic.partitions)
    found = routing.learn(known, replace(twice, topics=(replace(topic, partitions=parts),)))["t"]
    assert isinstance(found, TopicView)
    assert [part.partition for part in found.partitions] == [0, 1]


def test_a_cluster_that_was_there_before_is_waited_for() -> None:
    """B-W08 B78: a task of a running query comes while the only node starts anew."""
    known = session(is_cluster_known=True, default_api_timeout_ms=3_000)
    answers = [Lost(reason="connection refused")] * 3 + [metadata({0: 1})]
    cluster = Cluster(known, lambda ask: answers.pop(0))
    cluster.hold(refresh(known, ["t"]))
    assert known.cluster.nodes
    cluster = Cluster(session(is_cluster_known=True, default_api_timeout_ms=3_000), lambda ask: Lost(reason="refused"))
    with pytest.raises(OperatorError, match="3000 ms"):
        cluster.hold(refresh(cluster.session))


def test_a_cluster_that_stays_silent_is_given_up_at_the_api_timeout() -> None:
    """`default.api.timeout.ms` bounds a call with all its tries."""
    cluster = Cluster(session(default_api_timeout_ms=3_000), lambda ask: Lost(reason="no answer came in time"))
    with pytest.raises(OperatorError, match="3000 ms"):
        cluster.hold(refresh(cluster.session))
    assert 2_000 < cluster.paused_ms <= 3_000


def test_an_api_the_node_lacks_is_an_error_not_a_retry() -> None:
    """Asking again would not help."""
    cluster = Cluster(knowing(), lambda ask: Unsupported(api_key=16, reason="The node does not support ListGroups"))
    with pytest.raises(PeerError, match="does not support") as caught:
        cluster.hold(ask_any(cluster.session, ListGroupsRequest()))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert len(cluster.asked) == 1


def test_each_leader_is_asked_for_its_own_partitions() -> None:
    """One request a leader."""
    known = knowing(leaders=(1, 2))
    cluster = Cluster(known, lambda ask: listed({0: 10}) if ask.address == FIRST else listed({1: 20}))
    found = cluster.hold(offsets.list_offsets(known, {T0: LATEST, T1: LATEST}))
    assert found == {
        T0: ListedOffset(offset=10, timestamp_ms=-1, leader_epoch=5),
        T1: ListedOffset(offset=20, timestamp_ms=-1, leader_epoch=5),
    }
    assert [ask.address for ask in cluster.asked] == [FIRST, SECOND]


def test_a_partition_that_moved_is_asked_of_its_new_leader() -> None:
    """NOT_LEADER_OR_FOLLOWER: metadata is fetched again, and only that partition is asked again."""
    known = knowing(leaders=(1, 1))

    def answer(ask: Ask) -> Any:
        if isinstance(message_of(ask, 9), MetadataRequest):
            return metadata({0: 1, 1: 2})
        if ask.address == SECOND:
            return listed({1: 20})
        both = listed({0: 10, 1: -1})
        parts = both.response.topics[0].partitions
        moved = ListOffsetsPartitionResponse(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic = ListOffsetsTopicResponse(name="t", partitions=(parts[0], moved))
        return Answered(response=ListOffsetsResponse(topics=(topic,)), version=9)

    cluster = Cluster(known, answer)
    found = cluster.hold(offsets.list_offsets(known, {T0: LATEST, T1: LATEST}))
    assert {where: result.offset for where, result in found.items() if isinstance(result, ListedOffset)} == {
        T0: 10,
        T1: 20,
    }
    last = message_of(cluster.asked[-1], 9)
    assert [part.partition_index for part in last.topics[0].partitions] == [1]


def test_a_topic_that_does_not_exist_is_given_up_soon() -> None:
    """News of a new topic may be late, but a minute is too long for a name mistyped."""
    known = session()
    cluster = Cluster(known, lambda ask: metadata({}, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    found = cluster.hold(offsets.list_offsets(known, {T0: LATEST}))
    error = found[T0]
    assert isinstance(error, PeerError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(cluster.asked) == routing.MISSING_TRIES


def test_b29_a_leader_that_leaves_a_partition_out_gives_an_error() -> None:
    """B29: an answer without what was asked for."""
    known = knowing()
    cluster = Cluster(known, lambda ask: listed({}))
    error = cluster.hold(offsets.list_offsets(known, {T0: LATEST}))[T0]
    assert isinstance(error, PeerError)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_is_asked_of_its_coordinator_and_followed_when_it_moves() -> None:
    """NOT_COORDINATOR: the coordinator is looked up again."""
    known = knowing()
    homes = iter([(1, "one"), (2, "two")])

    def answer(ask: Ask) -> Any:
        if isinstance(message_of(ask, 4), FindCoordinatorRequest):
            node, host = next(homes)
            found = Coordinator(key="g", node_id=node, host=host, port=9092)
            return Answered(response=FindCoordinatorResponse(coordinators=(found,)), version=4)
        code = ErrorCode.NOT_COORDINATOR if ask.address == FIRST else ErrorCode.NONE
        return Answered(response=HeartbeatResponse(error_code=code), version=4)

    cluster = Cluster(known, answer)
    response = cluster.hold(
        ask_coordinator(known, "g", HeartbeatRequest(group_id="g"), verdict=lambda answer: error_of(answer.error_code))
    )
    assert response == HeartbeatResponse(error_code=0)
    assert cluster.asked[-1].address == SECOND


def test_committed_offsets_are_asked_in_the_form_of_each_version() -> None:
    """KIP-709: version 8 asks for groups, older ones for one; -1 stands for no commit."""
    known = knowing()
    known.coordinators["g"] = 1
    part = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7, committed_leader_epoch=2, metadata="m")
    none = OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1)
    group = OffsetFetchResponseGroup(
        group_id="g", topics=(OffsetFetchResponseTopics(name="t", partitions=(part, none)),)
    )
    cluster = Cluster(known, lambda ask: Answered(response=OffsetFetchResponse(groups=(group,)), version=9))
    found = cluster.hold(offsets.fetch_committed(known, "g", [T0, T1]))
    assert found == {T0: CommittedOffset(offset=7, leader_epoch=2, metadata="m")}
    (ask,) = cluster.asked
    old, new = message_of(ask, 7), message_of(ask, 9)
    assert isinstance(old, OffsetFetchRequest)
    assert (old.group_id, len(old.groups)) == ("g", 0)
    assert (new.group_id, [each.group_id for each in new.groups]) == ("", ["g"])


def test_an_older_leader_epoch_is_not_believed() -> None:
    """KIP-320: metadata may be stale; the epoch says which news is newer."""
    known = knowing(leaders=(1,))
    known.cluster.learn_leader(T0, leader=2, leader_epoch=9)
    routing.learn(known, metadata({0: 1}, epoch=8).response)
    assert known.cluster.leaders[T0] == (2, 9)
    routing.learn(known, metadata({0: 1}, epoch=10).response)
    assert known.cluster.leaders[T0] == (1, 10)


def test_b29_brokers_without_an_address_are_not_believed() -> None:
    """B29: ports and hosts that cannot be connected to."""
    known = session()
    brokers = (
        MetadataResponseBroker(node_id=1, host="", port=9092),
        MetadataResponseBroker(node_id=2, host="x", port=70_000),
    )
    routing.learn(known, MetadataResponse(brokers=brokers, cluster_id="c", topics=()))
    assert known.cluster.nodes == {}
    assert known.cluster.candidates() == [FIRST]


def test_groups_answer_is_not_shared_between_calls() -> None:
    """A second call asks again."""
    known = knowing()
    cluster = Cluster(known, lambda ask: Answered(response=ListGroupsResponse(), version=4))
    cluster.hold(ask_any(known, ListGroupsRequest()))
    cluster.hold(ask_any(known, ListGroupsRequest()))
    assert len(cluster.asked) == 2


def test_a_node_that_does_not_answer_is_looked_for_again() -> None:
    """B-R28: it may have come back elsewhere; as long as nobody knows of it, it is asked where it was."""
    known = knowing()
    asked: list[tuple[str, int]] = []

    def answer(ask: Ask) -> Any:
        asked.append((str(ask.address), message_of(ask).SCHEMA.api_key))
        if isinstance(message_of(ask), MetadataRequest):
            is_back = len(asked) > 4
            nodes = ((1, "one"), (2, "elsewhere")) if is_back else ((1, "one"),)
            brokers = tuple(MetadataResponseBroker(node_id=node, host=host, port=9092) for node, host in nodes)
            return Answered(response=MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1), version=12)
        if ask.address.host != "elsewhere":
            return Lost(reason="the connection broke")
        return Answered(response=ListGroupsResponse(), version=4)

    cluster = Cluster(known, answer)
    cluster.hold(routing.ask_node(known, 2, ListGroupsRequest()))
    to_node = [address for address, key in asked if key == ListGroupsRequest.SCHEMA.api_key]
    assert to_node == ["two:9092", "two:9092", "two:9092", "elsewhere:9092"]


class Leaving:
    """A cluster whose node 2 leaves after the first Metadata request; the hosts that were asked anything else."""

    def __init__(self, known: Session, response: Callable[[int], Any]) -> None:
        self.asked: list[str] = []
        self._lists = [((1, "one"), (2, "two")), ((1, "one"),)]
        self._response = response
        self.cluster = Cluster(known, self._answer)

    def _answer(self, ask: Ask) -> Any:
        if isinstance(message_of(ask), MetadataRequest):
            nodes = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
            brokers = tuple(MetadataResponseBroker(node_id=node, host=host, port=9092) for node, host in nodes)
            return Answered(response=MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1), version=12)
        self.asked.append(ask.address.host)
        if ask.address.host == "two":
            return Lost(reason="connection refused")
        return Answered(response=self._response(len(self.asked)), version=4)


def test_a_node_that_leaves_while_all_are_asked_is_left_out() -> None:
    """Those that remain are asked anew: what the node had may be theirs now."""
    known = knowing()
    leaving = Leaving(known, lambda number: ListGroupsResponse(throttle_time_ms=number))
    found = leaving.cluster.hold(routing.ask_each_node(known, ListGroupsRequest()))
    assert leaving.asked == ["one", "two", "one"]
    assert [each.throttle_time_ms for each in found] == [3]


def test_log_directories_are_told_without_the_broker_that_left() -> None:
    """It is not waited for, and what the others tell is not lost."""
    known = knowing()
    leaving = Leaving(known, lambda _: DescribeLogDirsResponse())
    found = leaving.cluster.hold(admin_cluster.describe_log_dirs(known, [1, 2], ["t"]))
    assert found[1] == []
    assert isinstance(found[2], PeerError)
    assert found[2].code is ErrorCode.BROKER_NOT_AVAILABLE
    assert leaving.cluster.paused_ms < 5_000


def test_settings_of_a_broker_that_left_are_not_waited_for() -> None:
    """BROKER_NOT_AVAILABLE in its place."""
    known = knowing()
    leaving = Leaving(known, lambda _: DescribeLogDirsResponse())
    yielded = leaving.cluster.hold(admin_cluster.nodes(known))
    assert [node.node_id for node in yielded] == [1, 2]
    resource = Resource(ResourceType.BROKER, "2")
    found = leaving.cluster.hold(admin_configs.describe_configs(known, [resource]))
    error = found[resource]
    assert isinstance(error, PeerError)
    assert error.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert leaving.cluster.paused_ms < 5_000
