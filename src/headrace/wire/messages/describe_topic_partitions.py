"""The requests and responses of DescribeTopicPartitions (api key 75).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class RequestCursor(Struct):
    """Part of `DescribeTopicPartitionsRequest`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partition_index: int = field("int32 0+", default=0)


class TopicRequest(Struct):
    """Part of `DescribeTopicPartitionsRequest`."""

    name: str = field("string 0+ entity=topicName", default="")


class DescribeTopicPartitionsRequest(Message, kind="request", api_key=75, versions="0", flexible="0+"):
    """Request of api key 75."""

    topics: tuple[TopicRequest, ...] = field("[]TopicRequest 0+", default=())
    response_partition_limit: int = field("int32 0+", default=2000)
    cursor: RequestCursor | None = field("RequestCursor 0+ nullable=0+", default=None)


class ResponseCursor(Struct):
    """Part of `DescribeTopicPartitionsResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partition_index: int = field("int32 0+", default=0)


class DescribeTopicPartitionsResponsePartition(Struct):
    """Part of `DescribeTopicPartitionsResponse`."""

    error_code: int = field("int16 0+", default=0)
    partition_index: int = field("int32 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+ ignorable", default=-1)
    replica_nodes: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    isr_nodes: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    eligible_leader_replicas: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ entity=brokerId", default=None)
    last_known_elr: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ entity=brokerId", default=None)
    offline_replicas: tuple[int, ...] = field("[]int32 0+ ignorable entity=brokerId", default=())


class DescribeTopicPartitionsResponseTopic(Struct):
    """Part of `DescribeTopicPartitionsResponse`."""

    error_code: int = field("int16 0+", default=0)
    name: str | None = field("string 0+ nullable=0+ key entity=topicName", default="")
    topic_id: Uuid = field("uuid 0+ ignorable", default=ZERO_UUID)
    is_internal: bool = field("bool 0+ ignorable", default=False)
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = field(
        "[]DescribeTopicPartitionsResponsePartition 0+", default=()
    )
    topic_authorized_operations: int = field("int32 0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Message, kind="response", api_key=75, versions="0", flexible="0+"):
    """Response of api key 75."""

    throttle_time_ms: int = field("int32 0+ ignorable", default=0)
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = field(
        "[]DescribeTopicPartitionsResponseTopic 0+", default=()
    )
    next_cursor: ResponseCursor | None = field("ResponseCursor 0+ nullable=0+", default=None)
