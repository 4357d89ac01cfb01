"""The requests and responses of AddPartitionsToTxn (api key 24).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class AddPartitionsToTxnTopic(Struct):
    """Part of `AddPartitionsToTxnRequest`."""

    name: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class AddPartitionsToTxnTransaction(Struct):
    """Part of `AddPartitionsToTxnRequest`."""

    transactional_id: str = field("string 4+ key entity=transactionalId", default="")
    producer_id: int = field("int64 4+ entity=producerId", default=0)
    producer_epoch: int = field("int16 4+", default=0)
    verify_only: bool = field("bool 4+", default=False)
    topics: tuple[AddPartitionsToTxnTopic, ...] = field("[]AddPartitionsToTxnTopic 4+", default=())


class AddPartitionsToTxnRequest(Message, kind="request", api_key=24, versions="0-5", flexible="3+"):
    """Request of api key 24."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = field("[]AddPartitionsToTxnTransaction 4+", default=())
    v3_and_below_transactional_id: str = field("string 0-3 entity=transactionalId", default="")
    v3_and_below_producer_id: int = field("int64 0-3 entity=producerId", default=0)
    v3_and_below_producer_epoch: int = field("int16 0-3", default=0)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = field("[]AddPartitionsToTxnTopic 0-3", default=())


class AddPartitionsToTxnPartitionResult(Struct):
    """Part of `AddPartitionsToTxnResponse`."""

    partition_index: int = field("int32 0+ key", default=0)
    partition_error_code: int = field("int16 0+", default=0)


class AddPartitionsToTxnTopicResult(Struct):
    """Part of `AddPartitionsToTxnResponse`."""

    name: str = field("string 0+ key entity=topicName", default="")
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = field(
        "[]AddPartitionsToTxnPartitionResult 0+", default=()
    )


class AddPartitionsToTxnResult(Struct):
    """Part of `AddPartitionsToTxnResponse`."""

    transactional_id: str = field("string 4+ key entity=transactionalId", default="")
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = field("[]AddPartitionsToTxnTopicResult 4+", default=())


class AddPartitionsToTxnResponse(Message, kind="response", api_key=24, versions="0-5", flexible="3+"):
    """Response of api key 24."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 4+ ignorable", default=0)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = field("[]AddPartitionsToTxnResult 4+", default=())
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = field(
        "[]AddPartitionsToTxnTopicResult 0-3", default=()
    )
