"""The requests and responses of DescribeProducers (api key 61).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TopicRequest(Struct):
    """Part of `DescribeProducersRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partition_indexes: tuple[int, ...] = field("[]int32 0+", default=())


class DescribeProducersRequest(Message, kind="request", api_key=61, versions="0", flexible="0+"):
    """Request of api key 61."""

    topics: tuple[TopicRequest, ...] = field("[]TopicRequest 0+", default=())


class ProducerState(Struct):
    """Part of `DescribeProducersResponse`."""

    producer_id: int = field("int64 0+ entity=producerId", default=0)
    producer_epoch: int = field("int32 0+", default=0)
    last_sequence: int = field("int32 0+", default=-1)
    last_timestamp: int = field("int64 0+", default=-1)
    coordinator_epoch: int = field("int32 0+", default=0)
    current_txn_start_offset: int = field("int64 0+", default=-1)


class PartitionResponse(Struct):
    """Part of `DescribeProducersResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    active_producers: tuple[ProducerState, ...] = field("[]ProducerState 0+", default=())


class TopicResponse(Struct):
    """Part of `DescribeProducersResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[PartitionResponse, ...] = field("[]PartitionResponse 0+", default=())


class DescribeProducersResponse(Message, kind="response", api_key=61, versions="0", flexible="0+"):
    """Response of api key 61."""

    throttle_time_ms: int = field("int32 0+", default=0)
    topics: tuple[TopicResponse, ...] = field("[]TopicResponse 0+", default=())
