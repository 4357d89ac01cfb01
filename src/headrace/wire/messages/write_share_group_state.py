"""The requests and responses of WriteShareGroupState (api key 85).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class StateBatch(Struct):
    """Part of `WriteShareGroupStateRequest`."""

    first_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    delivery_state: int = field("int8 0+", default=0)
    delivery_count: int = field("int16 0+", default=0)


class PartitionData(Struct):
    """Part of `WriteShareGroupStateRequest`."""

    partition: int = field("int32 0+", default=0)
    state_epoch: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)
    delivery_complete_count: int = field("int32 1+ ignorable", default=-1)
    state_batches: tuple[StateBatch, ...] = field("[]StateBatch 0+", default=())


class WriteStateData(Struct):
    """Part of `WriteShareGroupStateRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class WriteShareGroupStateRequest(Message, kind="request", api_key=85, versions="0-1", flexible="0+"):
    """Request of api key 85."""

    group_id: str = field("string 0+", default="")
    topics: tuple[WriteStateData, ...] = field("[]WriteStateData 0+", default=())


class PartitionResult(Struct):
    """Part of `WriteShareGroupStateResponse`."""

    partition: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class WriteStateResult(Struct):
    """Part of `WriteShareGroupStateResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field("[]PartitionResult 0+", default=())


class WriteShareGroupStateResponse(Message, kind="response", api_key=85, versions="0-1", flexible="0+"):
    """Response of api key 85."""

    results: tuple[WriteStateResult, ...] = field("[]WriteStateResult 0+", default=())
