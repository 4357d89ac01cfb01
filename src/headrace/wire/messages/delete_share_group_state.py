"""The requests and responses of DeleteShareGroupState (api key 86).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class PartitionData(Struct):
    """Part of `DeleteShareGroupStateRequest`."""

    partition: int = field("int32 0+", default=0)


class DeleteStateData(Struct):
    """Part of `DeleteShareGroupStateRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class DeleteShareGroupStateRequest(Message, kind="request", api_key=86, versions="0", flexible="0+"):
    """Request of api key 86."""

    group_id: str = field("string 0+", default="")
    topics: tuple[DeleteStateData, ...] = field("[]DeleteStateData 0+", default=())


class PartitionResult(Struct):
    """Part of `DeleteShareGroupStateResponse`."""

    partition: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class DeleteStateResult(Struct):
    """Part of `DeleteShareGroupStateResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[PartitionResult, ...] = field("[]PartitionResult 0+", default=())


class DeleteShareGroupStateResponse(Message, kind="response", api_key=86, versions="0", flexible="0+"):
    """Response of api key 86."""

    results: tuple[DeleteStateResult, ...] = field("[]DeleteStateResult 0+", default=())
