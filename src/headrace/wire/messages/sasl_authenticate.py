"""The requests and responses of SaslAuthenticate (api key 36).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class SaslAuthenticateRequest(Message, kind="request", api_key=36, versions="0-2", flexible="2+"):
    """Request of api key 36."""

    auth_bytes: bytes = field("bytes 0+", default=b"")


class SaslAuthenticateResponse(Message, kind="response", api_key=36, versions="0-2", flexible="2+"):
    """Response of api key 36."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    auth_bytes: bytes = field("bytes 0+", default=b"")
    session_lifetime_ms: int = field("int64 1+ ignorable", default=0)
