"""The schema of StreamsGroupCurrentMemberAssignmentValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TaskIds(Struct):
    """Part of `StreamsGroupCurrentMemberAssignmentValue`."""

    subtopology_id: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())
    assignment_epochs: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ tag=0@0+", default=())


class StreamsGroupCurrentMemberAssignmentValue(
    Message, kind="coordinator-value", api_key=22, versions="0", flexible="0+"
):
    """Value of a coordinator's record of type 22."""

    member_epoch: int = field("int32 0+", default=0)
    previous_member_epoch: int = field("int32 0+", default=0)
    state: int = field("int8 0+", default=0)
    active_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    standby_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    warmup_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    active_tasks_pending_revocation: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    standby_tasks_pending_revocation: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    warmup_tasks_pending_revocation: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
