"""The schema of AbortTransactionRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class AbortTransactionRecord(Message, kind="metadata", api_key=25, versions="0", flexible="0+"):
    """Metadata record of type 25."""

    reason: str | None = field("string 0+ nullable=0+ tag=0@0+", default=None)
