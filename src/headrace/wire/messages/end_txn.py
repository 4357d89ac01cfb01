"""The requests and responses of EndTxn (api key 26).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class EndTxnRequest(Message, kind="request", api_key=26, versions="0-5", flexible="3+"):
    """Request of api key 26."""

    transactional_id: str = field("string 0+ entity=transactionalId", default="")
    producer_id: int = field("int64 0+ entity=producerId", default=0)
    producer_epoch: int = field("int16 0+", default=0)
    committed: bool = field("bool 0+", default=False)


class EndTxnResponse(Message, kind="response", api_key=26, versions="0-5", flexible="3+"):
    """Response of api key 26."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    producer_id: int = field("int64 5+ ignorable entity=producerId", default=-1)
    producer_epoch: int = field("int16 5+ ignorable", default=-1)
