"""The schema of BeginTransactionRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class BeginTransactionRecord(Message, kind="metadata", api_key=23, versions="0", flexible="0+"):
    """Metadata record of type 23."""

    name: str | None = field("string 0+ nullable=0+ tag=0@0+", default=None)
