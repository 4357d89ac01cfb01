"""The schema of ConsumerGroupCurrentMemberAssignmentValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class TopicPartitions(Struct):
    """Part of `ConsumerGroupCurrentMemberAssignmentValue`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())
    assignment_epochs: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ tag=0@0+", default=())


class ConsumerGroupCurrentMemberAssignmentValue(
    Message, kind="coordinator-value", api_key=8, versions="0", flexible="0+"
):
    """Value of a coordinator's record of type 8."""

    member_epoch: int = field("int32 0+", default=0)
    previous_member_epoch: int = field("int32 0+", default=0)
    state: int = field("int8 0+", default=0)
    assigned_partitions: tuple[TopicPartitions, ...] = field("[]TopicPartitions 0+", default=())
    partitions_pending_revocation: tuple[TopicPartitions, ...] = field("[]TopicPartitions 0+", default=())
