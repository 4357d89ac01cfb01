"""The requests and responses of InitProducerId (api key 22).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class InitProducerIdRequest(Message, kind="request", api_key=22, versions="0-6", flexible="2+"):
    """Request of api key 22."""

    transactional_id: str | None = field("string 0+ nullable=0+ entity=transactionalId", default="")
    transaction_timeout_ms: int = field("int32 0+", default=0)
    producer_id: int = field("int64 3+ entity=producerId", default=-1)
    producer_epoch: int = field("int16 3+", default=-1)
    enable2_pc: bool = field("bool 6+", default=False)
    keep_prepared_txn: bool = field("bool 6+", default=False)


class InitProducerIdResponse(Message, kind="response", api_key=22, versions="0-6", flexible="2+"):
    """Response of api key 22."""

    throttle_time_ms: int = field("int32 0+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
    producer_id: int = field("int64 0+ entity=producerId", default=-1)
    producer_epoch: int = field("int16 0+", default=0)
    ongoing_txn_producer_id: int = field("int64 6+ entity=producerId", default=-1)
    ongoing_txn_producer_epoch: int = field("int16 6+", default=-1)
