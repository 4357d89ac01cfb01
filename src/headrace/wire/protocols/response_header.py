"""The schema of ResponseHeader.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ResponseHeader(Message, kind="header", versions="0-1", flexible="1+"):
    """Stands before every message of its direction."""

    correlation_id: int = field("int32 0+", default=0)
