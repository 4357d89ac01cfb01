"""The requests and responses of OffsetDelete (api key 47).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class OffsetDeleteRequestPartition(Struct):
    """Part of `OffsetDeleteRequest`."""

    partition_index: int = field("int32 0+", default=0)


class OffsetDeleteRequestTopic(Struct):
    """Part of `OffsetDeleteRequest`."""

    name: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = field("[]OffsetDeleteRequestPartition 0+", default=())


class OffsetDeleteRequest(Message, kind="request", api_key=47, versions="0", flexible="none"):
    """Request of api key 47."""

    group_id: str = field("string 0+ entity=groupId", default="")
    topics: tuple[OffsetDeleteRequestTopic, ...] = field("[]OffsetDeleteRequestTopic 0+", default=())


class OffsetDeleteResponsePartition(Struct):
    """Part of `OffsetDeleteResponse`."""

    partition_index: int = field("int32 0+ key", default=0)
    error_code: int = field("int16 0+", default=0)


class OffsetDeleteResponseTopic(Struct):
    """Part of `OffsetDeleteResponse`."""

    name: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = field("[]OffsetDeleteResponsePartition 0+", default=())


class OffsetDeleteResponse(Message, kind="response", api_key=47, versions="0", flexible="none"):
    """Response of api key 47."""

    error_code: int = field("int16 0+", default=0)
    throttle_time_ms: int = field("int32 0+ ignorable", default=0)
    topics: tuple[OffsetDeleteResponseTopic, ...] = field("[]OffsetDeleteResponseTopic 0+", default=())
