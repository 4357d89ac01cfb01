"""The schema of RemoveTopicRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class RemoveTopicRecord(Message, kind="metadata", api_key=9, versions="0", flexible="0+"):
    """Metadata record of type 9."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
