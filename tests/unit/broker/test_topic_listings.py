"""What does a broker tell of topics, replicas and listeners, and page by page?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.departures import LISTED_MS
from headrace.core.ids import Uuid
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_bench import DIRECTORY_ID, BrokerBench, Client

OTHER_DIRECTORY = Uuid(b"another-director")


def pages(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    """One page."""
    return DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def shown(answer: Any) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    """(name, error, partitions) of each topic, and where the next page begins."""
    topics = [
        (topic.name, topic.error_code, [partition.partition_index for partition in topic.partitions])
        for topic in answer.topics
    ]
    cursor = answer.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_topic_that_went_between_two_pages_does_not_hide_partitions_of_the_next() -> None:
    """KIP-966, B-W08: its place in the cursor is no place in another topic."""
    bench = BrokerBench()
    bench.topic("b")
    answer = Client(bench).ask(pages("a", "b", cursor=("a", 5)), 0)
    assert shown(answer) == ([("a", 3, []), ("b", 0, [0])], None)


@pytest.mark.parametrize("limit", [-1, 0, 1])
def test_a_page_has_at_least_one_partition(limit: int) -> None:
    """input:B23, KIP-966: so paging always gets on; an unknown topic behind a full page waits for the next."""
    bench = BrokerBench()
    bench.topic("b")
    answer = Client(bench).ask(pages("b", "z", limit=limit), 0)
    assert shown(answer) == ([("b", 0, [0])], ("z", 0))


@pytest.mark.parametrize("cursor", [("c", 0), ("b", -1)])
def test_a_cursor_that_was_not_given_out_is_refused(cursor: tuple[str, int]) -> None:
    """input:B23, KIP-966: INVALID_REQUEST."""
    bench = BrokerBench()
    bench.topic("b")
    assert shown(Client(bench).ask(pages("b", cursor=cursor), 0)) == ([("b", 42, [])], None)


def test_a_partition_without_a_leader_is_described_without_an_error() -> None:
    """KIP-966: clients read the leader -1, as from Kafka."""
    bench = BrokerBench()
    bench.topic("b", leader=-1, replicas=(2,), isr=(2,))
    (partition,) = Client(bench).ask(pages("b"), 0).topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.isr_nodes) == (0, -1, (2,))


@pytest.mark.parametrize(("directories", "offline"), [((OTHER_DIRECTORY,), (2,)), ((DIRECTORY_ID,), ()), ((), ())])
def test_a_replica_in_a_log_directory_that_failed_is_offline(
    directories: tuple[Uuid, ...], offline: tuple[int, ...]
) -> None:
    """B-K08, KIP-858: `directories` are those that broker 2 still has; none means that it never told any."""
    bench = BrokerBench()
    bench.topic("b", replicas=(1, 2), isr=(1,))
    bench.register(2, log_dirs=directories)
    client = Client(bench)
    told = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="b"),)), 12).topics[0].partitions[0]
    described = client.ask(pages("b"), 0).topics[0].partitions[0]
    assert (told.offline_replicas, described.offline_replicas) == (offline, offline)


def test_the_controller_that_clients_are_told_of_is_a_broker_that_serves_them() -> None:
    """B-C30: whoever is asked while it is alive, else another one; never a controller, which clients cannot reach; -1 when no broker serves."""

    def told() -> tuple[int, set[int]]:
        bench.advance(LISTED_MS)
        answer = client.ask(MetadataRequest(topics=()), 12)
        return answer.controller_id, {each.node_id for each in answer.brokers}

    bench = BrokerBench()
    client = Client(bench)
    assert told() == (1, {1, 2, 3})
    bench.register(1, fenced=True)
    controller_id, alive = told()
    assert controller_id in alive == {2, 3}
    bench.register(2, fenced=True)
    assert told() == (3, {3})
    bench.register(3, fenced=True)
    assert told() == (-1, set())


def test_names_beside_ids_are_not_looked_at() -> None:
    """input:B27: a request that asks for one topic by its id asks for all by id, as in Kafka."""
    bench = BrokerBench()
    topic_id = bench.topic("b")
    bench.topic("c")
    asked = (MetadataRequestTopic(name="c"), MetadataRequestTopic(topic_id=topic_id, name=None))
    assert [topic.name for topic in Client(bench).ask(MetadataRequest(topics=asked), 12).topics] == ["b"]


def listed(bench: BrokerBench) -> tuple[list[int], int]:
    """The brokers that clients are told of, and who leads a topic's partition."""
    answer = Client(bench).ask(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12)
    return [each.node_id for each in answer.brokers], answer.topics[0].partitions[0].leader_id


def test_a_broker_that_left_is_listed_a_second_longer() -> None:
    """fault:S1: a client that hears in one answer of another leader and of no such broker may lose the partition until its own next look (librdkafka)."""
    bench = BrokerBench()
    bench.topic("t", leader=2, replicas=(2, 3))
    bench.topic("t", leader=3, replicas=(2, 3), isr=(3,), leader_epoch=1, is_published=False)
    bench.register(2, fenced=True)
    assert listed(bench) == ([1, 2, 3], 3)
    bench.advance(LISTED_MS - 1)
    assert listed(bench) == ([1, 2, 3], 3)
    bench.advance(1)
    assert listed(bench) == ([1, 3], 3)
    bench.register(2, fenced=False)
    bench.register(2, fenced=True)
    assert listed(bench) == ([1, 2, 3], 3)


def test_nothing_else_is_told_of_a_broker_that_left() -> None:
    """fault:S1, KIP-112: it is reached by nobody, leads nothing, and an operator who unregisters it does not see it again."""
    bench = BrokerBench()
    bench.topic("t", leader=-1, replicas=(2, 3), isr=(2,), is_published=False)
    bench.register(2, fenced=True)
    answer = Client(bench).ask(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12)
    [partition] = answer.topics[0].partitions
    assert (partition.leader_id, partition.offline_replicas) == (-1, (2,))
    assert [each.broker_id for each in Client(bench).ask(DescribeClusterRequest(), 1).brokers] == [1, 3]
    bench.register(3, in_controlled_shutdown=True)
    bench.register(3, fenced=True)
    assert listed(bench)[0] == [1, 2], "it stopped cleanly"
    bench.unregister(2)
    assert listed(bench)[0] == [1]
