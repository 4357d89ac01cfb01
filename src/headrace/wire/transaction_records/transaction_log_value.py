"""The schema of TransactionLogValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class PartitionsSchema(Struct):
    """Part of `TransactionLogValue`."""

    topic: str = field("string 0+", default="")
    partition_ids: tuple[int, ...] = field("[]int32 0+", default=())


class TransactionLogValue(Message, kind="coordinator-value", api_key=0, versions="0-1", flexible="1+"):
    """Value of a coordinator's record of type 0."""

    producer_id: int = field("int64 0+", default=0)
    previous_producer_id: int = field("int64 1+ tag=0@1+", default=-1)
    next_producer_id: int = field("int64 1+ tag=1@1+", default=-1)
    producer_epoch: int = field("int16 0+", default=0)
    next_producer_epoch: int = field("int16 1+ tag=3@1+", default=-1)
    transaction_timeout_ms: int = field("int32 0+", default=0)
    transaction_status: int = field("int8 0+", default=0)
    transaction_partitions: tuple[PartitionsSchema, ...] | None = field("[]PartitionsSchema 0+ nullable=0+", default=())
    transaction_last_update_timestamp_ms: int = field("int64 0+", default=0)
    transaction_start_timestamp_ms: int = field("int64 0+", default=0)
    client_transaction_version: int = field("int16 1+ tag=2@1+", default=0)
