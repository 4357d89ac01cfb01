"""The schema of NoOpRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message


class NoOpRecord(Message, kind="metadata", api_key=20, versions="0", flexible="0+"):
    """Metadata record of type 20."""
