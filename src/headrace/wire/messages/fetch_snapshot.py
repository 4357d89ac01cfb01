"""The requests and responses of FetchSnapshot (api key 59).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Records, Struct, field


class RequestSnapshotId(Struct):
    """Part of `FetchSnapshotRequest`."""

    end_offset: int = field("int64 0+", default=0)
    epoch: int = field("int32 0+", default=0)


class RequestPartitionSnapshot(Struct):
    """Part of `FetchSnapshotRequest`."""

    partition: int = field("int32 0+", default=0)
    current_leader_epoch: int = field("int32 0+", default=0)
    snapshot_id: RequestSnapshotId = field("RequestSnapshotId 0+", default=RequestSnapshotId())
    position: int = field("int64 0+", default=0)
    replica_directory_id: Uuid = field("uuid 1+ tag=0@1+ ignorable", default=ZERO_UUID)


class RequestTopicSnapshot(Struct):
    """Part of `FetchSnapshotRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[RequestPartitionSnapshot, ...] = field("[]RequestPartitionSnapshot 0+", default=())


class FetchSnapshotRequest(Message, kind="request", api_key=59, versions="0-1", flexible="0+"):
    """Request of api key 59."""

    cluster_id: str | None = field("string 0+ nullable=0+ tag=0@0+", default=None)
    replica_id: int = field("int32 0+ entity=brokerId", default=-1)
    max_bytes: int = field("int32 0+", default=2147483647)
    topics: tuple[RequestTopicSnapshot, ...] = field("[]RequestTopicSnapshot 0+", default=())


class NodeEndpoint(Struct):
    """Part of `FetchSnapshotResponse`."""

    node_id: int = field("int32 1+ key entity=brokerId", default=0)
    host: str = field("string 1+", default="")
    port: int = field("uint16 1+", default=0)


class LeaderIdAndEpoch(Struct):
    """Part of `FetchSnapshotResponse`."""

    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+", default=0)


class ResponseSnapshotId(Struct):
    """Part of `FetchSnapshotResponse`."""

    end_offset: int = field("int64 0+", default=0)
    epoch: int = field("int32 0+", default=0)


class ResponsePartitionSnapshot(Struct):
    """Part of `FetchSnapshotResponse`."""

    index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    snapshot_id: ResponseSnapshotId = field("ResponseSnapshotId 0+", default=ResponseSnapshotId())
    current_leader: LeaderIdAndEpoch = field("LeaderIdAndEpoch 0+ tag=0@0+", default=LeaderIdAndEpoch())
    size: int = field("int64 0+", default=0)
    position: int = field("int64 0+", default=0)
    unaligned_records: Records | None = field("records 0+", default=None)


class ResponseTopicSnapshot(Struct):
    """Part of `FetchSnapshotResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ResponsePartitionSnapshot, ...] = field("[]ResponsePartitionSnapshot 0+", default=())


class FetchSnapshotResponse(Message, kind="response", api_key=59, versions="0-1", flexible="0+"):
    """Response of api key 59."""

    throttle_time_ms: int = field("int32 0+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
    topics: tuple[ResponseTopicSnapshot, ...] = field("[]ResponseTopicSnapshot 0+", default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 1+ tag=0@1+", default=())
