"""The requests and responses of InitializeShareGroupState (api key 83).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class PartitionData(Struct):
    """Part of `InitializeShareGroupStateRequest`."""

    partition: int = field("int32 0+", default=0)
    state_epoch: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)


class InitializeStateData(Struct):
    """Part of `InitializeShareGroupStateRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class InitializeShareGroupStateRequest(Message, kind="request", api_key=83, versions="0", flexible="0+"):
    """Request of api key 83."""

    group_id: str = field("string 0+", default="")
    topics: tuple[InitializeStateData, ...] = field("[]InitializeStateData 0+", default=())


class PartitionResult(Struct):
    """Part of `InitializeShareGroupStateResponse`."""

    partition: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class InitializeStateResult(Struct):
    """Part of `InitializeShareGroupStateResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field("[]PartitionResult 0+", default=())


class InitializeShareGroupStateResponse(Message, kind="response", api_key=83, versions="0", flexible="0+"):
    """Response of api key 83."""

    results: tuple[InitializeStateResult, ...] = field("[]InitializeStateResult 0+", default=())
