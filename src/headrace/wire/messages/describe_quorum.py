"""The requests and responses of DescribeQuorum (api key 55).

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
    wants_node_view: bool = field("bool 0+ tag=10000@0+", default=False)
    last_words_of: int = field("int32 0+ tag=10001@0+", default=-1)
    last_words: str = field("string 0+ tag=10002@0+", default="")
    wants_broker_views: bool = field("bool 0+ tag=10003@0+", default=False)


class BrokerView(Struct):
    """Part of `DescribeQuorumResponse`."""

    broker_id: int = field("int32 0+", default=0)
    state: int = field("int8 0+", default=0)
    broker_epoch: int = field("int64 0+", default=0)
    incarnation_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    is_fenced: bool = field("bool 0+", default=False)
    in_controlled_shutdown: bool = field("bool 0+", default=False)
    silence_ms: int = field("int64 0+", default=-1)
    metadata_offset: int = field("int64 0+", default=-1)
    waits_for_brokers: tuple[int, ...] = field("[]int32 0+", default=())


class BatchDigest(Struct):
    """Part of `DescribeQuorumResponse`."""

    base_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    epoch: int = field("int32 0+", default=0)
    crc: int = field("int64 0+", default=0)


class EpochStart(Struct):
    """Part of `DescribeQuorumResponse`."""

    epoch: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)


class NodeLink(Struct):
    """Part of `DescribeQuorumResponse`."""

    peer_id: int = field("int32 0+", default=-1)
    host: str = field("string 0+", default="")
    port: int = field("int32 0+", default=-1)
    answered_age_ms: int = field("int64 0+", default=-1)
    failed_age_ms: int = field("int64 0+", default=-1)
    failing_for_ms: int = field("int64 0+", default=-1)
    failure: str = field("string 0+", default="")
    refused_age_ms: int = field("int64 0+", default=-1)
    refusal_code: int = field("int16 0+", default=0)
    refused_api: int = field("int16 0+", default=0)
    heard_age_ms: int = field("int64 0+", default=-1)
    told_code: int = field("int16 0+", default=0)
    told_api: int = field("int16 0+", default=0)
    told_age_ms: int = field("int64 0+", default=-1)
    log_end_offset: int = field("int64 0+", default=-1)
    fetch_age_ms: int = field("int64 0+", default=-1)
    caught_up_age_ms: int = field("int64 0+", default=-1)
    last_words: str = field("string 0+", default="")
    last_words_age_ms: int = field("int64 0+", default=-1)


class OwnEndPoint(Struct):
    """Part of `DescribeQuorumResponse`."""

    name: str = field("string 0+", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)
    is_for_controllers: bool = field("bool 0+", default=False)


class NodeEndPoint(Struct):
    """Part of `DescribeQuorumResponse`."""

    name: str = field("string 0+", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class NodeVoter(Struct):
    """Part of `DescribeQuorumResponse`."""

    voter_id: int = field("int32 0+", default=0)
    directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    end_points: tuple[NodeEndPoint, ...] = field("[]NodeEndPoint 0+", default=())


class NodeVote(Struct):
    """Part of `DescribeQuorumResponse`."""

    voter_id: int = field("int32 0+", default=0)
    is_granted: bool = field("bool 0+", default=False)


class NodeView(Struct):
    """Part of `DescribeQuorumResponse`."""

    node_id: int = field("int32 0+", default=0)
    directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    cluster_id: str = field("string 0+", default="")
    software_version: str = field("string 0+", default="")
    process_roles: str = field("string 0+", default="")
    log_directory: str = field("string 0+", default="")
    role: str = field("string 0+", default="")
    epoch: int = field("int32 0+", default=0)
    leader_id: int = field("int32 0+", default=-1)
    voted_id: int = field("int32 0+", default=-1)
    voted_directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    votes: tuple[NodeVote, ...] = field("[]NodeVote 0+", default=())
    log_start_offset: int = field("int64 0+", default=-1)
    log_end_offset: int = field("int64 0+", default=-1)
    durable_end_offset: int = field("int64 0+", default=-1)
    high_watermark: int = field("int64 0+", default=-1)
    uncommitted_for_ms: int = field("int64 0+", default=-1)
    log_end_epoch: int = field("int32 0+", default=-1)
    kraft_version: int = field("int16 0+", default=0)
    voter_set_offset: int = field("int64 0+", default=-1)
    voters: tuple[NodeVoter, ...] = field("[]NodeVoter 0+", default=())
    own_end_points: tuple[OwnEndPoint, ...] = field("[]OwnEndPoint 0+", default=())
    links: tuple[NodeLink, ...] = field("[]NodeLink 0+", default=())
    flush_last_ms: int = field("int64 0+", default=-1)
    flush_average_ms: int = field("int64 0+", default=-1)
    flush_max_ms: int = field("int64 0+", default=-1)
    flush_in_flight_ms: int = field("int64 0+", default=-1)
    flush_count: int = field("int64 0+", default=-1)
    disk_free_bytes: int = field("int64 0+", default=-1)
    disk_total_bytes: int = field("int64 0+", default=-1)
    disk_failure: str = field("string 0+", default="")
    disk_failure_age_ms: int = field("int64 0+", default=-1)
    wall_clock_ms: int = field("int64 0+", default=0)
    uptime_ms: int = field("int64 0+", default=0)
    clock_jump_ms: int = field("int64 0+", default=0)
    clock_jump_age_ms: int = field("int64 0+", default=-1)
    problem: str = field("string 0+", default="")
    epoch_history: tuple[EpochStart, ...] = field("[]EpochStart 0+", default=())
    batches: tuple[BatchDigest, ...] = field("[]BatchDigest 0+", default=())
    last_applied_offset: int = field("int64 0+", default=-1)
    last_applied_timestamp: int = field("int64 0+", default=-1)
    last_applied_lag_ms: int = field("int64 0+", default=-1)


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
    """Response of api key 55."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 2+ nullable=2+ ignorable", default="")
    topics: tuple[ResponseTopicData, ...] = field("[]ResponseTopicData 0+", default=())
    nodes: tuple[Node, ...] = field("[]Node 2+", default=())
    node_views: tuple[NodeView, ...] = field("[]NodeView 0+ tag=10000@0+ ignorable", default=())
    broker_views: tuple[BrokerView, ...] = field("[]BrokerView 0+ tag=10001@0+ ignorable", default=())
