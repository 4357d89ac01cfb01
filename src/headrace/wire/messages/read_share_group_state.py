"""The requests and responses of ReadShareGroupState (api key 84).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class PartitionData(Struct):
    """Part of `ReadShareGroupStateRequest`."""

    partition: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)


class ReadStateData(Struct):
    """Part of `ReadShareGroupStateRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class ReadShareGroupStateRequest(Message, kind="request", api_key=84, versions="0", flexible="0+"):
    """Request of api key 84."""

    group_id: str = field("string 0+", default="")
    topics: tuple[ReadStateData, ...] = field("[]ReadStateData 0+", default=())


class StateBatch(Struct):
    """Part of `ReadShareGroupStateResponse`."""

    first_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    delivery_state: int = field("int8 0+", default=0)
    delivery_count: int = field("int16 0+", default=0)


class PartitionResult(Struct):
    """Part of `ReadShareGroupStateResponse`."""

    partition: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    state_epoch: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)
    state_batches: tuple[StateBatch, ...] = field("[]StateBatch 0+", default=())


class ReadStateResult(Struct):
    """Part of `ReadShareGroupStateResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field("[]PartitionResult 0+", default=())


class ReadShareGroupStateResponse(Message, kind="response", api_key=84, versions="0", flexible="0+"):
    """Response of api key 84."""

    results: tuple[ReadStateResult, ...] = field("[]ReadStateResult 0+", default=())
