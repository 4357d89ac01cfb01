"""The requests and responses of DescribeTransactions (api key 65).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribeTransactionsRequest(Message, kind="request", api_key=65, versions="0", flexible="0+"):
    """Request of api key 65."""

    transactional_ids: tuple[str, ...] = field("[]string 0+ entity=transactionalId", default=())


class TopicData(Struct):
    """Part of `DescribeTransactionsResponse`."""

    topic: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class TransactionState(Struct):
    """Part of `DescribeTransactionsResponse`."""

    error_code: int = field("int16 0+", default=0)
    transactional_id: str = field("string 0+ entity=transactionalId", default="")
    transaction_state: str = field("string 0+", default="")
    transaction_timeout_ms: int = field("int32 0+", default=0)
    transaction_start_time_ms: int = field("int64 0+", default=0)
    producer_id: int = field("int64 0+ entity=producerId", default=0)
    producer_epoch: int = field("int16 0+", default=0)
    topics: tuple[TopicData, ...] = field("[]TopicData 0+", default=())


class DescribeTransactionsResponse(Message, kind="response", api_key=65, versions="0", flexible="0+"):
    """Response of api key 65."""

    throttle_time_ms: int = field("int32 0+", default=0)
    transaction_states: tuple[TransactionState, ...] = field("[]TransactionState 0+", default=())
