"""The requests and responses of OffsetCommit (api key 8).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    """Part of `OffsetCommitRequest`."""

    partition_index: int = field("int32 0+", default=0)
    committed_offset: int = field("int64 0+", default=0)
    committed_leader_epoch: int = field("int32 6+ ignorable", default=-1)
    committed_metadata: str | None = field("string 0+ nullable=0+", default="")


class OffsetCommitRequestTopic(Struct):
    """Part of `OffsetCommitRequest`."""

    name: str = field("string 0-9 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 10+ ignorable", default=ZERO_UUID)
    partitions: tuple[OffsetCommitRequestPartition, ...] = field("[]OffsetCommitRequestPartition 0+", default=())


class OffsetCommitRequest(Message, kind="request", api_key=8, versions="2-10", flexible="8+"):
    """Request of api key 8."""

    group_id: str = field("string 0+ entity=groupId", default="")
    generation_id_or_member_epoch: int = field("int32 1+ ignorable", default=-1)
    member_id: str = field("string 1+ ignorable", default="")
    group_instance_id: str | None = field("string 7+ nullable=7+", default=None)
    retention_time_ms: int = field("int64 2-4 ignorable", default=-1)
    topics: tuple[OffsetCommitRequestTopic, ...] = field("[]OffsetCommitRequestTopic 0+", default=())


class OffsetCommitResponsePartition(Struct):
    """Part of `OffsetCommitResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)


class OffsetCommitResponseTopic(Struct):
    """Part of `OffsetCommitResponse`."""

    name: str = field("string 0-9 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 10+ ignorable", default=ZERO_UUID)
    partitions: tuple[OffsetCommitResponsePartition, ...] = field("[]OffsetCommitResponsePartition 0+", default=())


class OffsetCommitResponse(Message, kind="response", api_key=8, versions="2-10", flexible="8+"):
    """Response of api key 8."""

    throttle_time_ms: int = field("int32 3+ ignorable", default=0)
    topics: tuple[OffsetCommitResponseTopic, ...] = field("[]OffsetCommitResponseTopic 0+", default=())
