"""The schema of PartitionChangeRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class PartitionChangeRecord(Message, kind="metadata", api_key=5, versions="0-2", flexible="0+"):
    """Metadata record of type 5."""

    partition_id: int = field("int32 0+", default=-1)
    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    isr: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ tag=0@0+ entity=brokerId", default=None)
    leader: int = field("int32 0+ tag=1@0+ entity=brokerId", default=-2)
    replicas: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ tag=2@0+ entity=brokerId", default=None)
    removing_replicas: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ tag=3@0+ entity=brokerId", default=None)
    adding_replicas: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ tag=4@0+ entity=brokerId", default=None)
    leader_recovery_state: int = field("int8 0+ tag=5@0+", default=-1)
    directories: tuple[Uuid, ...] | None = field("[]uuid 1+ nullable=1+ tag=8@1+", default=None)
    eligible_leader_replicas: tuple[int, ...] | None = field(
        "[]int32 2+ nullable=2+ tag=6@2+ entity=brokerId", default=None
    )
    last_known_elr: tuple[int, ...] | None = field("[]int32 2+ nullable=2+ tag=7@2+ entity=brokerId", default=None)
