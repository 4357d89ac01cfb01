"""The schema of PartitionRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class PartitionRecord(Message, kind="metadata", api_key=3, versions="0-2", flexible="0+"):
    """Metadata record of type 3."""

    partition_id: int = field("int32 0+", default=-1)
    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    replicas: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    isr: tuple[int, ...] = field("[]int32 0+", default=())
    removing_replicas: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    adding_replicas: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    leader: int = field("int32 0+ entity=brokerId", default=-1)
    leader_recovery_state: int = field("int8 0+ tag=0@0+", default=0)
    leader_epoch: int = field("int32 0+", default=-1)
    partition_epoch: int = field("int32 0+", default=-1)
    directories: tuple[Uuid, ...] = field("[]uuid 1+", default=())
    eligible_leader_replicas: tuple[int, ...] | None = field(
        "[]int32 2+ nullable=2+ tag=1@2+ entity=brokerId", default=None
    )
    last_known_elr: tuple[int, ...] | None = field("[]int32 2+ nullable=2+ tag=2@2+ entity=brokerId", default=None)
    first_leader_epoch: int = field("int32 0+ tag=9999@0+", default=0)
