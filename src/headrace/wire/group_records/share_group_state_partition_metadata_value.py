"""The schema of ShareGroupStatePartitionMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class TopicInfo(Struct):
    """Part of `ShareGroupStatePartitionMetadataValue`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    topic_name: str = field("string 0+", default="")


class TopicPartitionsInfo(Struct):
    """Part of `ShareGroupStatePartitionMetadataValue`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    topic_name: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class ShareGroupStatePartitionMetadataValue(Message, kind="coordinator-value", api_key=15, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 15."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = field("[]TopicPartitionsInfo 0+", default=())
    initialized_topics: tuple[TopicPartitionsInfo, ...] = field("[]TopicPartitionsInfo 0+", default=())
    deleting_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())
