"""The requests and responses of OffsetForLeaderEpoch (api key 23).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class OffsetForLeaderPartition(Struct):
    """Part of `OffsetForLeaderEpochRequest`."""

    partition: int = field("int32 0+", default=0)
    current_leader_epoch: int = field("int32 2+ ignorable", default=-1)
    leader_epoch: int = field("int32 0+", default=0)


class OffsetForLeaderTopic(Struct):
    """Part of `OffsetForLeaderEpochRequest`."""

    topic: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[OffsetForLeaderPartition, ...] = field("[]OffsetForLeaderPartition 0+", default=())


class OffsetForLeaderEpochRequest(Message, kind="request", api_key=23, versions="2-4", flexible="4+"):
    """Request of api key 23."""

    replica_id: int = field("int32 3+ ignorable entity=brokerId", default=-2)
    topics: tuple[OffsetForLeaderTopic, ...] = field("[]OffsetForLeaderTopic 0+", default=())


class EpochEndOffset(Struct):
    """Part of `OffsetForLeaderEpochResponse`."""

    error_code: int = field("int16 0+", default=0)
    partition: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 1+ ignorable", default=-1)
    end_offset: int = field("int64 0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    """Part of `OffsetForLeaderEpochResponse`."""

    topic: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[EpochEndOffset, ...] = field("[]EpochEndOffset 0+", default=())


class OffsetForLeaderEpochResponse(Message, kind="response", api_key=23, versions="2-4", flexible="4+"):
    """Response of api key 23."""

    throttle_time_ms: int = field("int32 2+ ignorable", default=0)
    topics: tuple[OffsetForLeaderTopicResult, ...] = field("[]OffsetForLeaderTopicResult 0+", default=())
