"""The requests and responses of Envelope (api key 58).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class EnvelopeRequest(Message, kind="request", api_key=58, versions="0", flexible="0+"):
    """Request of api key 58."""

    request_data: bytes = field("bytes 0+", default=b"")
    request_principal: bytes | None = field("bytes 0+ nullable=0+", default=b"")
    client_host_address: bytes = field("bytes 0+", default=b"")


class EnvelopeResponse(Message, kind="response", api_key=58, versions="0", flexible="0+"):
    """Response of api key 58."""

    response_data: bytes | None = field("bytes 0+ nullable=0+", default=None)
    error_code: int = field("int16 0+", default=0)
