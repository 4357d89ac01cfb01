"""The requests and responses of Vote (api key 52).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class RequestPartitionData(Struct):
    """Part of `VoteRequest`."""

    partition_index: int = field("int32 0+", default=0)
    replica_epoch: int = field("int32 0+", default=0)
    replica_id: int = field("int32 0+ entity=brokerId", default=0)
    replica_directory_id: Uuid = field("uuid 1+ ignorable", default=ZERO_UUID)
    voter_directory_id: Uuid = field("uuid 1+ ignorable", default=ZERO_UUID)
    last_offset_epoch: int = field("int32 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    pre_vote: bool = field("bool 2+", default=False)


class RequestTopicData(Struct):
    """Part of `VoteRequest`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[RequestPartitionData, ...] = field("[]RequestPartitionData 0+", default=())


class VoteRequest(Message, kind="request", api_key=52, versions="0-2", flexible="0+"):
    """Request of api key 52."""

    cluster_id: str | None = field("string 0+ nullable=0+", default=None)
    voter_id: int = field("int32 1+ ignorable entity=brokerId", default=-1)
    topics: tuple[RequestTopicData, ...] = field("[]RequestTopicData 0+", default=())


class NodeEndpoint(Struct):
    """Part of `VoteResponse`."""

    node_id: int = field("int32 1+ key entity=brokerId", default=0)
    host: str = field("string 1+", default="")
    port: int = field("uint16 1+", default=0)


class ResponsePartitionData(Struct):
    """Part of `VoteResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    vote_granted: bool = field("bool 0+", default=False)


class ResponseTopicData(Struct):
    """Part of `VoteResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ResponsePartitionData, ...] = field("[]ResponsePartitionData 0+", default=())


class VoteResponse(Message, kind="response", api_key=52, versions="0-2", flexible="0+"):
    """Response of api key 52."""

    error_code: int = field("int16 0+", default=0)
    topics: tuple[ResponseTopicData, ...] = field("[]ResponseTopicData 0+", default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 1+ tag=0@1+", default=())
