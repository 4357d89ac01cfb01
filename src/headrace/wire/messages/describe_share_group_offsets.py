"""The requests and responses of DescribeShareGroupOffsets (api key 90).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Part of `DescribeShareGroupOffsetsRequest`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """Part of `DescribeShareGroupOffsetsRequest`."""

    group_id: str = field("string 0+ entity=groupId", default="")
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = field(
        "[]DescribeShareGroupOffsetsRequestTopic 0+ nullable=0+", default=()
    )


class DescribeShareGroupOffsetsRequest(Message, kind="request", api_key=90, versions="0-1", flexible="0+"):
    """Request of api key 90."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = field(
        "[]DescribeShareGroupOffsetsRequestGroup 0+", default=()
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """Part of `DescribeShareGroupOffsetsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    lag: int = field("int64 1+ ignorable", default=-1)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """Part of `DescribeShareGroupOffsetsResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = field(
        "[]DescribeShareGroupOffsetsResponsePartition 0+", default=()
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """Part of `DescribeShareGroupOffsetsResponse`."""

    group_id: str = field("string 0+ entity=groupId", default="")
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = field(
        "[]DescribeShareGroupOffsetsResponseTopic 0+", default=()
    )
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, kind="response", api_key=90, versions="0-1", flexible="0+"):
    """Response of api key 90."""

    throttle_time_ms: int = field("int32 0+", default=0)
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = field(
        "[]DescribeShareGroupOffsetsResponseGroup 0+", default=()
    )
