"""The schema of RequestHeader.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class RequestHeader(Message, kind="header", versions="1-2", flexible="2+"):
    """Stands before every message of its direction."""

    request_api_key: int = field("int16 0+", default=0)
    request_api_version: int = field("int16 0+", default=0)
    correlation_id: int = field("int32 0+", default=0)
    client_id: str | None = field("string 1+ nullable=1+ inflexible", default="")
