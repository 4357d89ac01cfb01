"""The requests and responses of AlterShareGroupOffsets (api key 91).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class AlterShareGroupOffsetsRequestPartition(Struct):
    """Part of `AlterShareGroupOffsetsRequest`."""

    partition_index: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)


class AlterShareGroupOffsetsRequestTopic(Struct):
    """Part of `AlterShareGroupOffsetsRequest`."""

    topic_name: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = field(
        "[]AlterShareGroupOffsetsRequestPartition 0+", default=()
    )


class AlterShareGroupOffsetsRequest(Message, kind="request", api_key=91, versions="0", flexible="0+"):
    """Request of api key 91."""

    group_id: str = field("string 0+ entity=groupId", default="")
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = field(
        "[]AlterShareGroupOffsetsRequestTopic 0+", default=()
    )


class AlterShareGroupOffsetsResponsePartition(Struct):
    """Part of `AlterShareGroupOffsetsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """Part of `AlterShareGroupOffsetsResponse`."""

    topic_name: str = field("string 0+ key entity=topicName", default="")
    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = field(
        "[]AlterShareGroupOffsetsResponsePartition 0+", default=()
    )


class AlterShareGroupOffsetsResponse(Message, kind="response", api_key=91, versions="0", flexible="0+"):
    """Response of api key 91."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = field(
        "[]AlterShareGroupOffsetsResponseTopic 0+", default=()
    )
