"""The requests and responses of GetTelemetrySubscriptions (api key 71).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class GetTelemetrySubscriptionsRequest(Message, kind="request", api_key=71, versions="0", flexible="0+"):
    """Request of api key 71."""

    client_instance_id: Uuid = field("uuid 0+", default=ZERO_UUID)


class GetTelemetrySubscriptionsResponse(Message, kind="response", api_key=71, versions="0", flexible="0+"):
    """Response of api key 71."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    client_instance_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    subscription_id: int = field("int32 0+", default=0)
    accepted_compression_types: tuple[int, ...] = field("[]int8 0+", default=())
    push_interval_ms: int = field("int32 0+", default=0)
    telemetry_max_bytes: int = field("int32 0+", default=0)
    delta_temporality: bool = field("bool 0+", default=False)
    requested_metrics: tuple[str, ...] = field("[]string 0+", default=())
