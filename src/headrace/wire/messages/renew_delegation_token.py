"""The requests and responses of RenewDelegationToken (api key 39).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class RenewDelegationTokenRequest(Message, kind="request", api_key=39, versions="1-2", flexible="2+"):
    """Request of api key 39."""

    hmac: bytes = field("bytes 0+", default=b"")
    renew_period_ms: int = field("int64 0+", default=0)


class RenewDelegationTokenResponse(Message, kind="response", api_key=39, versions="1-2", flexible="2+"):
    """Response of api key 39."""

    error_code: int = field("int16 0+", default=0)
    expiry_timestamp_ms: int = field("int64 0+", default=0)
    throttle_time_ms: int = field("int32 0+", default=0)
