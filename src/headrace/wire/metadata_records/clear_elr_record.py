"""The schema of ClearElrRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ClearElrRecord(Message, kind="metadata", api_key=28, versions="0", flexible="0+"):
    """Metadata record of type 28."""

    topic_name: str = field("string 0+ entity=topicName", default="")
