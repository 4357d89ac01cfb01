"""The requests and responses of AllocateProducerIds (api key 67).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class AllocateProducerIdsRequest(Message, kind="request", api_key=67, versions="0", flexible="0+"):
    """Request of api key 67."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 0+", default=-1)


class AllocateProducerIdsResponse(Message, kind="response", api_key=67, versions="0", flexible="0+"):
    """Response of api key 67."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    producer_id_start: int = field("int64 0+ entity=producerId", default=0)
    producer_id_len: int = field("int32 0+", default=0)
