"""The requests and responses of AssignReplicasToDirs (api key 73).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class RequestPartitionData(Struct):
    """Part of `AssignReplicasToDirsRequest`."""

    partition_index: int = field("int32 0+", default=0)


class RequestTopicData(Struct):
    """Part of `AssignReplicasToDirsRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[RequestPartitionData, ...] = field("[]RequestPartitionData 0+", default=())


class RequestDirectoryData(Struct):
    """Part of `AssignReplicasToDirsRequest`."""

    id: Uuid = field("uuid 0+", default=ZERO_UUID)
    topics: tuple[RequestTopicData, ...] = field("[]RequestTopicData 0+", default=())


class AssignReplicasToDirsRequest(Message, kind="request", api_key=73, versions="0", flexible="0+"):
    """Request of api key 73."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 0+", default=-1)
    directories: tuple[RequestDirectoryData, ...] = field("[]RequestDirectoryData 0+", default=())


class ResponsePartitionData(Struct):
    """Part of `AssignReplicasToDirsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)


class ResponseTopicData(Struct):
    """Part of `AssignReplicasToDirsResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[ResponsePartitionData, ...] = field("[]ResponsePartitionData 0+", default=())


class ResponseDirectoryData(Struct):
    """Part of `AssignReplicasToDirsResponse`."""

    id: Uuid = field("uuid 0+", default=ZERO_UUID)
    topics: tuple[ResponseTopicData, ...] = field("[]ResponseTopicData 0+", default=())


class AssignReplicasToDirsResponse(Message, kind="response", api_key=73, versions="0", flexible="0+"):
    """Response of api key 73."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    directories: tuple[ResponseDirectoryData, ...] = field("[]ResponseDirectoryData 0+", default=())
