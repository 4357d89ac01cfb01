"""The schema of ShareGroupTargetAssignmentMemberValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class TopicPartition(Struct):
    """Part of `ShareGroupTargetAssignmentMemberValue`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class ShareGroupTargetAssignmentMemberValue(Message, kind="coordinator-value", api_key=13, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 13."""

    topic_partitions: tuple[TopicPartition, ...] = field("[]TopicPartition 0+", default=())
