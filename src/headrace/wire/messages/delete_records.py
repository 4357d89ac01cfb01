"""The requests and responses of DeleteRecords (api key 21).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DeleteRecordsPartition(Struct):
    """Part of `DeleteRecordsRequest`."""

    partition_index: int = field("int32 0+", default=0)
    offset: int = field("int64 0+", default=0)


class DeleteRecordsTopic(Struct):
    """Part of `DeleteRecordsRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[DeleteRecordsPartition, ...] = field("[]DeleteRecordsPartition 0+", default=())


class DeleteRecordsRequest(Message, kind="request", api_key=21, versions="0-2", flexible="2+"):
    """Request of api key 21."""

    topics: tuple[DeleteRecordsTopic, ...] = field("[]DeleteRecordsTopic 0+", default=())
    timeout_ms: int = field("int32 0+", default=0)


class DeleteRecordsPartitionResult(Struct):
    """Part of `DeleteRecordsResponse`."""

    partition_index: int = field("int32 0+ key", default=0)
    low_watermark: int = field("int64 0+", default=0)
    error_code: int = field("int16 0+", default=0)


class DeleteRecordsTopicResult(Struct):
    """Part of `DeleteRecordsResponse`."""

    name: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = field("[]DeleteRecordsPartitionResult 0+", default=())


class DeleteRecordsResponse(Message, kind="response", api_key=21, versions="0-2", flexible="2+"):
    """Response of api key 21."""

    throttle_time_ms: int = field("int32 0+", default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = field("[]DeleteRecordsTopicResult 0+", default=())
