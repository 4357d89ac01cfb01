"""The requests and responses of ReadShareGroupStateSummary (api key 87).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class PartitionData(Struct):
    """Part of `ReadShareGroupStateSummaryRequest`."""

    partition: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)


class ReadStateSummaryData(Struct):
    """Part of `ReadShareGroupStateSummaryRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class ReadShareGroupStateSummaryRequest(Message, kind="request", api_key=87, versions="0-1", flexible="0+"):
    """Request of api key 87."""

    group_id: str = field("string 0+", default="")
    topics: tuple[ReadStateSummaryData, ...] = field("[]ReadStateSummaryData 0+", default=())


class PartitionResult(Struct):
    """Part of `ReadShareGroupStateSummaryResponse`."""

    partition: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    state_epoch: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)
    delivery_complete_count: int = field("int32 1+ ignorable", default=-1)


class ReadStateSummaryResult(Struct):
    """Part of `ReadShareGroupStateSummaryResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field("[]PartitionResult 0+", default=())


class ReadShareGroupStateSummaryResponse(Message, kind="response", api_key=87, versions="0-1", flexible="0+"):
    """Response of api key 87."""

    results: tuple[ReadStateSummaryResult, ...] = field("[]ReadStateSummaryResult 0+", default=())
