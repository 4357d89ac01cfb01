"""The requests and responses of ExpireDelegationToken (api key 40).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ExpireDelegationTokenRequest(Message, kind="request", api_key=40, versions="1-2", flexible="2+"):
    """Request of api key 40."""

    hmac: bytes = field("bytes 0+", default=b"")
    expiry_time_period_ms: int = field("int64 0+", default=0)


class ExpireDelegationTokenResponse(Message, kind="response", api_key=40, versions="1-2", flexible="2+"):
    """Response of api key 40."""

    error_code: int = field("int16 0+", default=0)
    expiry_timestamp_ms: int = field("int64 0+", default=0)
    throttle_time_ms: int = field("int32 0+", default=0)
