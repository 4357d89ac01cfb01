"""The schema of ConsumerProtocolSubscription.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TopicPartition(Struct):
    """Part of `ConsumerProtocolSubscription`."""

    topic: str = field("string 1+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 1+", default=())


class ConsumerProtocolSubscription(Message, kind="data", versions="0-3", flexible="none"):
    """Data on its own: no api key."""

    topics: tuple[str, ...] = field("[]string 0+", default=())
    user_data: bytes | None = field("bytes 0+ nullable=0+", default=None)
    owned_partitions: tuple[TopicPartition, ...] = field("[]TopicPartition 1+ ignorable", default=())
    generation_id: int = field("int32 2+ ignorable", default=-1)
    rack_id: str | None = field("string 3+ nullable=3+ ignorable", default=None)
