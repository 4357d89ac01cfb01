"""The requests and responses of PushTelemetry (api key 72).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class PushTelemetryRequest(Message, kind="request", api_key=72, versions="0", flexible="0+"):
    """Request of api key 72."""

    client_instance_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    subscription_id: int = field("int32 0+", default=0)
    terminating: bool = field("bool 0+", default=False)
    compression_type: int = field("int8 0+", default=0)
    metrics: bytes = field("bytes 0+", default=b"")


class PushTelemetryResponse(Message, kind="response", api_key=72, versions="0", flexible="0+"):
    """Response of api key 72."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
