"""The schema of ShareGroupCurrentMemberAssignmentValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class TopicPartitions(Struct):
    """Part of `ShareGroupCurrentMemberAssignmentValue`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class ShareGroupCurrentMemberAssignmentValue(
    Message, kind="coordinator-value", api_key=14, versions="0", flexible="0+"
):
    """Value of a coordinator's record of type 14."""

    member_epoch: int = field("int32 0+", default=0)
    previous_member_epoch: int = field("int32 0+", default=0)
    state: int = field("int8 0+", default=0)
    assigned_partitions: tuple[TopicPartitions, ...] = field("[]TopicPartitions 0+", default=())
