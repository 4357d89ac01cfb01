"""The requests and responses of ListOffsets (api key 2).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ListOffsetsPartition(Struct):
    """Part of `ListOffsetsRequest`."""

    partition_index: int = field("int32 0+", default=0)
    current_leader_epoch: int = field("int32 4+ ignorable", default=-1)
    timestamp: int = field("int64 0+", default=0)


class ListOffsetsTopic(Struct):
    """Part of `ListOffsetsRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ListOffsetsPartition, ...] = field("[]ListOffsetsPartition 0+", default=())


class ListOffsetsRequest(Message, kind="request", api_key=2, versions="1-11", flexible="6+"):
    """Request of api key 2."""

    replica_id: int = field("int32 0+ entity=brokerId", default=0)
    isolation_level: int = field("int8 2+", default=0)
    topics: tuple[ListOffsetsTopic, ...] = field("[]ListOffsetsTopic 0+", default=())
    timeout_ms: int = field("int32 10+ ignorable", default=0)


class ListOffsetsPartitionResponse(Struct):
    """Part of `ListOffsetsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    timestamp: int = field("int64 1+", default=-1)
    offset: int = field("int64 1+", default=-1)
    leader_epoch: int = field("int32 4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """Part of `ListOffsetsResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ListOffsetsPartitionResponse, ...] = field("[]ListOffsetsPartitionResponse 0+", default=())


class ListOffsetsResponse(Message, kind="response", api_key=2, versions="1-11", flexible="6+"):
    """Response of api key 2."""

    throttle_time_ms: int = field("int32 2+ ignorable", default=0)
    topics: tuple[ListOffsetsTopicResponse, ...] = field("[]ListOffsetsTopicResponse 0+", default=())
