"""The schema of EndTransactionRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message


class EndTransactionRecord(Message, kind="metadata", api_key=24, versions="0", flexible="0+"):
    """Metadata record of type 24."""
