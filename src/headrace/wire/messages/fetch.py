"""The requests and responses of Fetch (api key 1).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Records, Struct, field


class ForgottenTopic(Struct):
    """Part of `FetchRequest`."""

    topic: str = field("string 7-12 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 13+ ignorable", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 7+", default=())


class FetchPartition(Struct):
    """Part of `FetchRequest`."""

    partition: int = field("int32 0+", default=0)
    current_leader_epoch: int = field("int32 9+ ignorable", default=-1)
    fetch_offset: int = field("int64 0+", default=0)
    last_fetched_epoch: int = field("int32 12+", default=-1)
    log_start_offset: int = field("int64 5+ ignorable", default=-1)
    partition_max_bytes: int = field("int32 0+", default=0)
    replica_directory_id: Uuid = field("uuid 17+ tag=0@17+ ignorable", default=ZERO_UUID)
    high_watermark: int = field("int64 18+ tag=1@18+ ignorable", default=9223372036854775807)


class FetchTopic(Struct):
    """Part of `FetchRequest`."""

    topic: str = field("string 0-12 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 13+ ignorable", default=ZERO_UUID)
    partitions: tuple[FetchPartition, ...] = field("[]FetchPartition 0+", default=())


class ReplicaState(Struct):
    """Part of `FetchRequest`."""

    replica_id: int = field("int32 15+ entity=brokerId", default=-1)
    replica_epoch: int = field("int64 15+", default=-1)


class FetchRequest(Message, kind="request", api_key=1, versions="4-18", flexible="12+"):
    """Request of api key 1."""

    cluster_id: str | None = field("string 12+ nullable=12+ tag=0@12+ ignorable", default=None)
    replica_id: int = field("int32 0-14 entity=brokerId", default=-1)
    replica_state: ReplicaState = field("ReplicaState 15+ tag=1@15+", default=ReplicaState())
    max_wait_ms: int = field("int32 0+", default=0)
    min_bytes: int = field("int32 0+", default=0)
    max_bytes: int = field("int32 3+ ignorable", default=2147483647)
    isolation_level: int = field("int8 4+ ignorable", default=0)
    session_id: int = field("int32 7+ ignorable", default=0)
    session_epoch: int = field("int32 7+ ignorable", default=-1)
    topics: tuple[FetchTopic, ...] = field("[]FetchTopic 0+", default=())
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field("[]ForgottenTopic 7+", default=())
    rack_id: str = field("string 11+ ignorable", default="")


class NodeEndpoint(Struct):
    """Part of `FetchResponse`."""

    node_id: int = field("int32 16+ key entity=brokerId", default=0)
    host: str = field("string 16+", default="")
    port: int = field("int32 16+", default=0)
    rack: str | None = field("string 16+ nullable=16+", default=None)


class AbortedTransaction(Struct):
    """Part of `FetchResponse`."""

    producer_id: int = field("int64 4+ entity=producerId", default=0)
    first_offset: int = field("int64 4+", default=0)


class SnapshotId(Struct):
    """Part of `FetchResponse`."""

    end_offset: int = field("int64 0+", default=-1)
    epoch: int = field("int32 0+", default=-1)


class LeaderIdAndEpoch(Struct):
    """Part of `FetchResponse`."""

    leader_id: int = field("int32 12+ entity=brokerId", default=-1)
    leader_epoch: int = field("int32 12+", default=-1)


class EpochEndOffset(Struct):
    """Part of `FetchResponse`."""

    epoch: int = field("int32 12+", default=-1)
    end_offset: int = field("int64 12+", default=-1)


class PartitionData(Struct):
    """Part of `FetchResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    high_watermark: int = field("int64 0+", default=0)
    last_stable_offset: int = field("int64 4+ ignorable", default=-1)
    log_start_offset: int = field("int64 5+ ignorable", default=-1)
    diverging_epoch: EpochEndOffset = field("EpochEndOffset 12+ tag=0@12+", default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = field("LeaderIdAndEpoch 12+ tag=1@12+", default=LeaderIdAndEpoch())
    snapshot_id: SnapshotId = field("SnapshotId 12+ tag=2@12+", default=SnapshotId())
    aborted_transactions: tuple[AbortedTransaction, ...] | None = field(
        "[]AbortedTransaction 4+ nullable=4+ ignorable", default=()
    )
    preferred_read_replica: int = field("int32 11+ entity=brokerId", default=-1)
    records: Records | None = field("records 0+ nullable=0+", default=None)


class FetchableTopicResponse(Struct):
    """Part of `FetchResponse`."""

    topic: str = field("string 0-12 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 13+ ignorable", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class FetchResponse(Message, kind="response", api_key=1, versions="4-18", flexible="12+"):
    """Response of api key 1."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    error_code: int = field("int16 7+ ignorable", default=0)
    session_id: int = field("int32 7+", default=0)
    responses: tuple[FetchableTopicResponse, ...] = field("[]FetchableTopicResponse 0+", default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 16+ tag=0@16+", default=())
