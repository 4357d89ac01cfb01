"""The schema of ConsumerGroupPartitionMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class PartitionMetadata(Struct):
    """Part of `ConsumerGroupPartitionMetadataValue`."""

    partition: int = field("int32 0+", default=0)
    racks: tuple[str, ...] = field("[]string 0+", default=())


class TopicMetadata(Struct):
    """Part of `ConsumerGroupPartitionMetadataValue`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    topic_name: str = field("string 0+", default="")
    num_partitions: int = field("int32 0+", default=0)
    partition_metadata: tuple[PartitionMetadata, ...] = field("[]PartitionMetadata 0+", default=())


class ConsumerGroupPartitionMetadataValue(Message, kind="coordinator-value", api_key=4, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 4."""

    topics: tuple[TopicMetadata, ...] = field("[]TopicMetadata 0+", default=())
