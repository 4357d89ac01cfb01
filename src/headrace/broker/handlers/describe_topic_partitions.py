"""The partitions of topics, a page at a time (DescribeTopicPartitions, KIP-966)."""

from __future__ import annotations

from bisect import bisect_left

from headrace.broker.authorized_operations import TOPIC_OPERATIONS
from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS, topic_name_problem
from headrace.broker.topic_listing import Reachable
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import PartitionRegistration, TopicImage
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)


def handle(request: DescribeTopicPartitionsRequest, context: RequestContext, broker: Broker) -> Reply:
    """Topics in name order from the cursor on; `next_cursor` says where the page ended before the end.

    A page has at least one partition, whatever limit is asked for; a topic of the cursor that was asked for and is gone is told as unknown.
    """
    cursor, image = request.cursor, broker.image
    asked = {topic.name for topic in request.topics}
    names = sorted(asked or image.topics.by_name)
    if cursor is not None:
        if cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
            return _refused(request)
        names = names[bisect_left(names, cursor.topic_name) :]
    alive = Reachable(image, context.listener, broker.departures.gone)
    left = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if left == 0:
            return _page(topics, ResponseCursor(topic_name=name, partition_index=0))
        known = image.topics.by_name.get(name)
        if known is None:
            topics.append(_unknown(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        count = len(known.partitions)
        end = min(count, first + left)
        topics.append(_topic(known, range(first, end), alive))
        if end < count:
            return _page(topics, ResponseCursor(topic_name=name, partition_index=end))
        left -= max(0, end - first)
    return _page(topics, None)


def _refused(request: DescribeTopicPartitionsRequest) -> Reply:
    return _page(
        [
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ],
        None,
    )


def _page(topics: list[DescribeTopicPartitionsResponseTopic], cursor: ResponseCursor | None) -> Reply:
    return Reply(DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor))


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad_name = topic_name_problem(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if bad_name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(topic: TopicImage, indexes: range, alive: Reachable) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(index, topic.partitions[index], alive) for index in indexes),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    index: int, partition: PartitionRegistration, alive: Reachable
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=-1 if alive.leader_error(partition) else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=alive.offline_replicas(partition),
    )
