"""What do clients learn of brokers, topics and APIs, in every version?"""

from __future__ import annotations

import itertools

import pytest

from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from headrace.testing.node import Node
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.peers.kafka import Kafka
from tests.support.peer import Peer, batch, fetch_request

_NUMBERS = itertools.count(1)
ASK = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


@pytest.mark.parametrize("version", range(14))
def test_every_version_shows_a_topic(peer: Peer, topic: str, version: int) -> None:
    """By name; from version 12 on also by id."""
    answer = peer.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), version)
    assert [broker.port for broker in answer.brokers] == [peer.port]
    (shown,) = answer.topics
    assert (shown.error_code, shown.name, shown.is_internal) == (0, topic, False)
    partitions = [
        (one.error_code, one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for one in sorted(shown.partitions, key=lambda one: one.partition_index)
    ]
    assert partitions == [(0, index, 1, (1,), (1,), ()) for index in (0, 1)]
    assert [one.leader_epoch for one in shown.partitions] == [0 if version >= 7 else -1] * 2
    if version >= 12:
        by_id = peer.ask(MetadataRequest(topics=(MetadataRequestTopic(topic_id=shown.topic_id, name=None),)), version)
        assert by_id.topics[0].name == topic


@pytest.mark.parametrize("version", [0, 1, 4, 9, 12, 13])
def test_all_topics_are_asked_for_by_null_and_in_version_0_by_none(peer: Peer, topic: str, version: int) -> None:
    request = MetadataRequest(topics=() if version == 0 else None)
    assert topic in [one.name for one in peer.ask(request, version).topics]
    if version:
        assert peer.ask(MetadataRequest(topics=()), version).topics == ()


@pytest.mark.parametrize(
    ("name", "code"),
    [("nobody-made-this", 3), ("", 17), ("a/b", 17), ("..", 17), ("x" * 250, 17), ("a\0b", 17), ("é", 17)],
)
def test_unknown_and_bad_names_are_errors_of_their_own(peer: Peer, name: str, code: int) -> None:
    """B26: never a path outside the log directory, also when topics are made by asking."""
    asked = (MetadataRequestTopic(name=name),)
    quiet = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    assert peer.ask(quiet, 12).topics[0].error_code == code
    if code == 17:
        assert peer.ask(MetadataRequest(topics=asked), 12).topics[0].error_code == code


def test_an_unknown_id_is_told_with_its_id(peer: Peer) -> None:
    """B27."""
    unknown = Uuid(b"0123456789abcdef")
    (shown,) = peer.ask(MetadataRequest(topics=(MetadataRequestTopic(topic_id=unknown, name=None),)), 12).topics
    assert (shown.error_code, shown.topic_id) == (100, unknown)


def test_an_id_is_refused_before_version_12(peer: Peer, topic: str) -> None:
    """INVALID_REQUEST."""
    topic_id = peer.metadata(topic).topic_id
    (shown,) = peer.ask(MetadataRequest(topics=(MetadataRequestTopic(topic_id=topic_id, name=topic),)), 10).topics
    assert shown.error_code == 42


def test_asking_makes_a_topic_when_it_may(peer: Peer) -> None:
    """Auto creation: with the defaults of the cluster, once, however often it is asked for."""
    name = f"made-by-asking-{next(_NUMBERS)}"
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),))
    with peer.connect() as connection:
        while (shown := connection.ask(request, 12).topics[0]).error_code:
            assert shown.error_code in (3, 5)
    assert len(shown.partitions) == 1
    assert shown.topic_id != ZERO_UUID


def test_the_metadata_log_is_no_topic_of_clients(peer: Peer) -> None:
    """B-R01: on a broker's listener it is in no list, and is not described, made, written or read, by name or by id."""
    name = "__cluster_metadata"
    assert name not in [one.name for one in peer.ask(MetadataRequest(topics=None), 12).topics]
    assert peer.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 12).topics[0].error_code == 3
    by_id = MetadataRequest(topics=(MetadataRequestTopic(topic_id=METADATA_TOPIC_ID, name=None),))
    assert peer.ask(by_id, 12).topics[0].error_code == 100
    assert peer.produce(name, batch(b"x")).error_code == 3
    assert peer.produce("", batch(b"x"), version=13, topic_id=METADATA_TOPIC_ID).error_code == 100
    assert peer.ask(fetch_request(name), 11).responses[0].partitions[0].error_code == 3
    assert peer.ask(fetch_request(METADATA_TOPIC_ID), 13).responses[0].partitions[0].error_code == 100
    assert peer.offset(name, -1)[0] == 3


@pytest.mark.parametrize("version", [8, 10, 13])
def test_allowed_operations_are_told_when_asked_for(peer: Peer, topic: str, version: int) -> None:
    """KIP-430: without an authorizer everything is allowed."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=version <= 10,
    )
    answer = peer.ask(request, version)
    assert answer.topics[0].topic_authorized_operations == 0b110111111000
    if version <= 10:
        assert answer.cluster_authorized_operations == 0b1111110100000
    plain = peer.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), version)
    assert plain.topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(peer: Peer, version: int) -> None:
    """KIP-700: brokers of this listener."""
    answer = peer.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.controller_id) == (0, 1)
    assert [(one.broker_id, one.port, one.is_fenced) for one in answer.brokers] == [(1, peer.port, False)]
    assert answer.cluster_authorized_operations == 0b1111110100000


def describe(peer: Peer, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> object:
    """(name, error, partition numbers) of each topic, and the next cursor."""
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = peer.ask(request, 0)
    topics = [(one.name, one.error_code, [part.partition_index for part in one.partitions]) for one in answer.topics]
    following = answer.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


def test_partitions_are_described_a_page_at_a_time(peer: Peer) -> None:
    """KIP-966, B-W08: in name order, from the cursor on."""
    number = next(_NUMBERS)
    a, b = f"page-{number}-a", f"page-{number}-b"
    peer.create(a, partitions=3)
    peer.create(b, partitions=2)
    assert describe(peer, b, a) == ([(a, 0, [0, 1, 2]), (b, 0, [0, 1])], None)
    assert describe(peer, b, a, limit=2) == ([(a, 0, [0, 1])], (a, 2))
    assert describe(peer, b, a, limit=2, cursor=(a, 2)) == ([(a, 0, [2]), (b, 0, [0])], (b, 1))
    assert describe(peer, b, a, cursor=(b, 1)) == ([(b, 0, [1])], None)


def test_unknown_topics_are_described_as_errors(peer: Peer) -> None:
    assert describe(peer, "nobody-made-this") == ([("nobody-made-this", 3, [])], None)


@pytest.mark.java
def test_what_is_advertised_has_kafkas_range(data_node: Node, shared_kafka: Kafka) -> None:
    """B-W02: exactly 4.3.1's stable ranges; Produce from 0, InitProducerId to 5; nothing that Kafka does not have."""

    def ranges(peer: Peer) -> dict[int, tuple[int, int]]:
        keys = peer.ask(ASK, 4).api_keys
        return {one.api_key: (one.min_version, one.max_version) for one in keys}

    ours, kafkas = ranges(Peer("headrace", data_node.port)), ranges(Peer("kafka", shared_kafka.port))
    assert ours == {key: kafkas[key] for key in ours}
    assert ours[0] == (0, 13)
    assert ours[22] == (0, 5)
