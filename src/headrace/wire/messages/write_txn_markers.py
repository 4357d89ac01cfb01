"""The requests and responses of WriteTxnMarkers (api key 27).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class WritableTxnMarkerTopic(Struct):
    """Part of `WriteTxnMarkersRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partition_indexes: tuple[int, ...] = field("[]int32 0+", default=())


class WritableTxnMarker(Struct):
    """Part of `WriteTxnMarkersRequest`."""

    producer_id: int = field("int64 0+ entity=producerId", default=0)
    producer_epoch: int = field("int16 0+", default=0)
    transaction_result: bool = field("bool 0+", default=False)
    topics: tuple[WritableTxnMarkerTopic, ...] = field("[]WritableTxnMarkerTopic 0+", default=())
    coordinator_epoch: int = field("int32 0+", default=0)
    transaction_version: int = field("int8 2+ ignorable", default=0)


class WriteTxnMarkersRequest(Message, kind="request", api_key=27, versions="1-2", flexible="1+"):
    """Request of api key 27."""

    markers: tuple[WritableTxnMarker, ...] = field("[]WritableTxnMarker 0+", default=())


class WritableTxnMarkerPartitionResult(Struct):
    """Part of `WriteTxnMarkersResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)


class WritableTxnMarkerTopicResult(Struct):
    """Part of `WriteTxnMarkersResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = field(
        "[]WritableTxnMarkerPartitionResult 0+", default=()
    )


class WritableTxnMarkerResult(Struct):
    """Part of `WriteTxnMarkersResponse`."""

    producer_id: int = field("int64 0+ entity=producerId", default=0)
    topics: tuple[WritableTxnMarkerTopicResult, ...] = field("[]WritableTxnMarkerTopicResult 0+", default=())


class WriteTxnMarkersResponse(Message, kind="response", api_key=27, versions="1-2", flexible="1+"):
    """Response of api key 27."""

    markers: tuple[WritableTxnMarkerResult, ...] = field("[]WritableTxnMarkerResult 0+", default=())
