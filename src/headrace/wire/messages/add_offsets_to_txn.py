"""The requests and responses of AddOffsetsToTxn (api key 25).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class AddOffsetsToTxnRequest(Message, kind="request", api_key=25, versions="0-4", flexible="3+"):
    """Request of api key 25."""

    transactional_id: str = field("string 0+ entity=transactionalId", default="")
    producer_id: int = field("int64 0+ entity=producerId", default=0)
    producer_epoch: int = field("int16 0+", default=0)
    group_id: str = field("string 0+ entity=groupId", default="")


class AddOffsetsToTxnResponse(Message, kind="response", api_key=25, versions="0-4", flexible="3+"):
    """Response of api key 25."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
