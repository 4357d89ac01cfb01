"""What are the partitions of these topics, a page at a time? (DescribeTopicPartitions, KIP-966)"""

from __future__ import annotations

from headrace.broker.authorized_operations import TOPIC_OPERATIONS
from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.internal_topics import INTERNAL_TOPICS, topic_name_problem
from headrace.broker.reply import Reply
from headrace.broker.topic_listing import alive_end_points, leader_error, offline_replicas
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import EndPoint, MetadataImage, PartitionRegistration, TopicImage
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)


def handle(request: DescribeTopicPartitionsRequest, context: RequestContext, broker: Broker) -> Reply:
    """Topics in name order from the cursor on; `next_cursor` says where the page ended before the end."""
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or broker.image.topics.by_name)
    if request.response_partition_limit < 1 or (cursor is not None and cursor.partition_index < 0):
        return Reply(
            DescribeTopicPartitionsResponse(
                topics=tuple(
                    DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
                    for name in names
                )
            )
        )
    first = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    alive = alive_end_points(broker.image, context.listener)
    left = min(request.response_partition_limit, broker.config.max_request_partition_size_limit)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        known = broker.image.topics.by_name.get(name)
        if known is None:
            topics.append(_unknown(name))
            continue
        if left == 0:
            return _page(topics, ResponseCursor(topic_name=name, partition_index=first))
        indexes = [index for index in sorted(known.partitions) if index >= first]
        topics.append(_topic(known, indexes[:left], broker.image, alive))
        if len(indexes) > left:
            return _page(topics, ResponseCursor(topic_name=name, partition_index=indexes[left]))
        left -= len(indexes)
        first = 0
    return _page(topics, None)


def _page(topics: list[DescribeTopicPartitionsResponseTopic], cursor: ResponseCursor | None) -> Reply:
    return Reply(DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor))


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad_name = topic_name_problem(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if bad_name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _topic(
    topic: TopicImage, indexes: list[int], image: MetadataImage, alive: dict[int, EndPoint]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(index, topic.partitions[index], image, alive) for index in indexes),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    index: int, partition: PartitionRegistration, image: MetadataImage, alive: dict[int, EndPoint]
) -> DescribeTopicPartitionsResponsePartition:
    error = leader_error(partition, image, alive)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=partition.leader if error is ErrorCode.NONE else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=offline_replicas(partition, alive),
    )
