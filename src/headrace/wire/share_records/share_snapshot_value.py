"""The schema of ShareSnapshotValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class StateBatch(Struct):
    """Part of `ShareSnapshotValue`."""

    first_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    delivery_state: int = field("int8 0+", default=0)
    delivery_count: int = field("int16 0+", default=0)


class ShareSnapshotValue(Message, kind="coordinator-value", api_key=0, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 0."""

    snapshot_epoch: int = field("int32 0+", default=0)
    state_epoch: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    start_offset: int = field("int64 0+", default=0)
    delivery_complete_count: int = field("int32 0+ tag=0@0+", default=-1)
    create_timestamp: int = field("int64 0+", default=0)
    write_timestamp: int = field("int64 0+", default=0)
    state_batches: tuple[StateBatch, ...] = field("[]StateBatch 0+", default=())
