"""The schema of ConsumerProtocolAssignment.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TopicPartition(Struct):
    """Part of `ConsumerProtocolAssignment`."""

    topic: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class ConsumerProtocolAssignment(Message, kind="data", versions="0-3", flexible="none"):
    """Data on its own: no api key."""

    assigned_partitions: tuple[TopicPartition, ...] = field("[]TopicPartition 0+", default=())
    user_data: bytes | None = field("bytes 0+ nullable=0+", default=None)
