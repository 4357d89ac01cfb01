"""The requests and responses of OffsetFetch (api key 9).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class OffsetFetchRequestTopics(Struct):
    """Part of `OffsetFetchRequest`."""

    name: str = field("string 8-9 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 10+ ignorable", default=ZERO_UUID)
    partition_indexes: tuple[int, ...] = field("[]int32 8+", default=())


class OffsetFetchRequestGroup(Struct):
    """Part of `OffsetFetchRequest`."""

    group_id: str = field("string 8+ entity=groupId", default="")
    member_id: str | None = field("string 9+ nullable=9+ ignorable", default=None)
    member_epoch: int = field("int32 9+ ignorable", default=-1)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = field("[]OffsetFetchRequestTopics 8+ nullable=8+", default=())


class OffsetFetchRequestTopic(Struct):
    """Part of `OffsetFetchRequest`."""

    name: str = field("string 0-7 entity=topicName", default="")
    partition_indexes: tuple[int, ...] = field("[]int32 0-7", default=())


class OffsetFetchRequest(Message, kind="request", api_key=9, versions="1-10", flexible="6+"):
    """Request of api key 9."""

    group_id: str = field("string 0-7 entity=groupId", default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = field("[]OffsetFetchRequestTopic 0-7 nullable=2-7", default=())
    groups: tuple[OffsetFetchRequestGroup, ...] = field("[]OffsetFetchRequestGroup 8+", default=())
    require_stable: bool = field("bool 7+", default=False)


class OffsetFetchResponsePartitions(Struct):
    """Part of `OffsetFetchResponse`."""

    partition_index: int = field("int32 8+", default=0)
    committed_offset: int = field("int64 8+", default=0)
    committed_leader_epoch: int = field("int32 8+ ignorable", default=-1)
    metadata: str | None = field("string 8+ nullable=8+", default="")
    error_code: int = field("int16 8+", default=0)


class OffsetFetchResponseTopics(Struct):
    """Part of `OffsetFetchResponse`."""

    name: str = field("string 8-9 ignorable entity=topicName", default="")
    topic_id: Uuid = field("uuid 10+ ignorable", default=ZERO_UUID)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = field("[]OffsetFetchResponsePartitions 8+", default=())


class OffsetFetchResponseGroup(Struct):
    """Part of `OffsetFetchResponse`."""

    group_id: str = field("string 8+ entity=groupId", default="")
    topics: tuple[OffsetFetchResponseTopics, ...] = field("[]OffsetFetchResponseTopics 8+", default=())
    error_code: int = field("int16 8+", default=0)


class OffsetFetchResponsePartition(Struct):
    """Part of `OffsetFetchResponse`."""

    partition_index: int = field("int32 0-7", default=0)
    committed_offset: int = field("int64 0-7", default=0)
    committed_leader_epoch: int = field("int32 5-7 ignorable", default=-1)
    metadata: str | None = field("string 0-7 nullable=0-7", default="")
    error_code: int = field("int16 0-7", default=0)


class OffsetFetchResponseTopic(Struct):
    """Part of `OffsetFetchResponse`."""

    name: str = field("string 0-7 entity=topicName", default="")
    partitions: tuple[OffsetFetchResponsePartition, ...] = field("[]OffsetFetchResponsePartition 0-7", default=())


class OffsetFetchResponse(Message, kind="response", api_key=9, versions="1-10", flexible="6+"):
    """Response of api key 9."""

    throttle_time_ms: int = field("int32 3+ ignorable", default=0)
    topics: tuple[OffsetFetchResponseTopic, ...] = field("[]OffsetFetchResponseTopic 0-7", default=())
    error_code: int = field("int16 2-7 ignorable", default=0)
    groups: tuple[OffsetFetchResponseGroup, ...] = field("[]OffsetFetchResponseGroup 8+", default=())
