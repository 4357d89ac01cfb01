"""The requests and responses of EndQuorumEpoch (api key 54).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class LeaderEndpoint(Struct):
    """Part of `EndQuorumEpochRequest`."""

    name: str = field("string 1+ key", default="")
    host: str = field("string 1+", default="")
    port: int = field("uint16 1+", default=0)


class ReplicaInfo(Struct):
    """Part of `EndQuorumEpochRequest`."""

    candidate_id: int = field("int32 1+ entity=brokerId", default=0)
    candidate_directory_id: Uuid = field("uuid 1+", default=ZERO_UUID)


class RequestPartitionData(Struct):
    """Part of `EndQuorumEpochRequest`."""

    partition_index: int = field("int32 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    preferred_successors: tuple[int, ...] = field("[]int32 0 ignorable", default=())
    preferred_candidates: tuple[ReplicaInfo, ...] = field("[]ReplicaInfo 1+ ignorable", default=())


class RequestTopicData(Struct):
    """Part of `EndQuorumEpochRequest`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[RequestPartitionData, ...] = field("[]RequestPartitionData 0+", default=())


class EndQuorumEpochRequest(Message, kind="request", api_key=54, versions="0-1", flexible="1+"):
    """Request of api key 54."""

    cluster_id: str | None = field("string 0+ nullable=0+", default=None)
    topics: tuple[RequestTopicData, ...] = field("[]RequestTopicData 0+", default=())
    leader_endpoints: tuple[LeaderEndpoint, ...] = field("[]LeaderEndpoint 1+ ignorable", default=())


class NodeEndpoint(Struct):
    """Part of `EndQuorumEpochResponse`."""

    node_id: int = field("int32 1+ key entity=brokerId", default=0)
    host: str = field("string 1+", default="")
    port: int = field("uint16 1+", default=0)


class ResponsePartitionData(Struct):
    """Part of `EndQuorumEpochResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+", default=0)


class ResponseTopicData(Struct):
    """Part of `EndQuorumEpochResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ResponsePartitionData, ...] = field("[]ResponsePartitionData 0+", default=())


class EndQuorumEpochResponse(Message, kind="response", api_key=54, versions="0-1", flexible="1+"):
    """Response of api key 54."""

    error_code: int = field("int16 0+", default=0)
    topics: tuple[ResponseTopicData, ...] = field("[]ResponseTopicData 0+", default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 1+ tag=0@1+", default=())
