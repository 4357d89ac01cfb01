"""What do DescribeQuorum requests and responses (api key 55) hold?

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class RequestPartitionData(Struct):
    """Part of `DescribeQuorumRequest`."""

    partition_index: int = field("int32 0+", default=0)


class RequestTopicData(Struct):
    """Part of `DescribeQuorumRequest`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[RequestPartitionData, ...] = field("[]RequestPartitionData 0+", default=())


class DescribeQuorumRequest(Message, kind="request", api_key=55, versions="0-2", flexible="0+"):
    """Request of api key 55."""

    topics: tuple[RequestTopicData, ...] = field("[]RequestTopicData 0+", default=())


class Listener(Struct):
    """Part of `DescribeQuorumResponse`."""

    name: str = field("string 2+ key", default="")
    host: str = field("string 2+", default="")
    port: int = field("uint16 2+", default=0)


class Node(Struct):
    """Part of `DescribeQuorumResponse`."""

    node_id: int = field("int32 2+ key entity=brokerId", default=0)
    listeners: tuple[Listener, ...] = field("[]Listener 2+", default=())


class ReplicaState(Struct):
    """Part of `DescribeQuorumResponse`."""

    replica_id: int = field("int32 0+ entity=brokerId", default=0)
    replica_directory_id: Uuid = field("uuid 2+", default=ZERO_UUID)
    log_end_offset: int = field("int64 0+", default=0)
    last_fetch_timestamp: int = field("int64 1+ ignorable", default=-1)
    last_caught_up_timestamp: int = field("int64 1+ ignorable", default=-1)


class ResponsePartitionData(Struct):
    """Part of `DescribeQuorumResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 2+ nullable=2+ ignorable", default="")
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    high_watermark: int = field("int64 0+", default=0)
    current_voters: tuple[ReplicaState, ...] = field("[]ReplicaState 0+", default=())
    observers: tuple[ReplicaState, ...] = field("[]ReplicaState 0+", default=())


class ResponseTopicData(Struct):
    """Part of `DescribeQuorumResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ResponsePartitionData, ...] = field("[]ResponsePartitionData 0+", default=())


class DescribeQuorumResponse(Message, kind="response", api_key=55, versions="0-2", flexible="0+"):
    """Answer to api key 55."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 2+ nullable=2+ ignorable", default="")
    topics: tuple[ResponseTopicData, ...] = field("[]ResponseTopicData 0+", default=())
    nodes: tuple[Node, ...] = field("[]Node 2+", default=())
