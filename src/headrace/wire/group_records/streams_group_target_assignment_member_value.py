"""The schema of StreamsGroupTargetAssignmentMemberValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TaskIds(Struct):
    """Part of `StreamsGroupTargetAssignmentMemberValue`."""

    subtopology_id: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class StreamsGroupTargetAssignmentMemberValue(
    Message, kind="coordinator-value", api_key=21, versions="0", flexible="0+"
):
    """Value of a coordinator's record of type 21."""

    active_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    standby_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    warmup_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
