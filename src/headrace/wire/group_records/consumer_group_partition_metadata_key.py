"""The schema of ConsumerGroupPartitionMetadataKey.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ConsumerGroupPartitionMetadataKey(Message, kind="coordinator-key", api_key=4, versions="0", flexible="none"):
    """Key of a coordinator's record of type 4."""

    group_id: str = field("string 0", default="")
