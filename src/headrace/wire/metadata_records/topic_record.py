"""The schema of TopicRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class TopicRecord(Message, kind="metadata", api_key=2, versions="0", flexible="0+"):
    """Metadata record of type 2."""

    name: str = field("string 0+ entity=topicName", default="")
    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
