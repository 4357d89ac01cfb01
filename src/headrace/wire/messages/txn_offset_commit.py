"""The requests and responses of TxnOffsetCommit (api key 28).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    """Part of `TxnOffsetCommitRequest`."""

    partition_index: int = field("int32 0+", default=0)
    committed_offset: int = field("int64 0+", default=0)
    committed_leader_epoch: int = field("int32 2+ ignorable", default=-1)
    committed_metadata: str | None = field("string 0+ nullable=0+", default="")


class TxnOffsetCommitRequestTopic(Struct):
    """Part of `TxnOffsetCommitRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = field("[]TxnOffsetCommitRequestPartition 0+", default=())


class TxnOffsetCommitRequest(Message, kind="request", api_key=28, versions="0-5", flexible="3+"):
    """Request of api key 28."""

    transactional_id: str = field("string 0+ entity=transactionalId", default="")
    group_id: str = field("string 0+ entity=groupId", default="")
    producer_id: int = field("int64 0+ entity=producerId", default=0)
    producer_epoch: int = field("int16 0+", default=0)
    generation_id: int = field("int32 3+", default=-1)
    member_id: str = field("string 3+", default="")
    group_instance_id: str | None = field("string 3+ nullable=3+", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = field("[]TxnOffsetCommitRequestTopic 0+", default=())


class TxnOffsetCommitResponsePartition(Struct):
    """Part of `TxnOffsetCommitResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)


class TxnOffsetCommitResponseTopic(Struct):
    """Part of `TxnOffsetCommitResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = field(
        "[]TxnOffsetCommitResponsePartition 0+", default=()
    )


class TxnOffsetCommitResponse(Message, kind="response", api_key=28, versions="0-5", flexible="3+"):
    """Response of api key 28."""

    throttle_time_ms: int = field("int32 0+", default=0)
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = field("[]TxnOffsetCommitResponseTopic 0+", default=())
