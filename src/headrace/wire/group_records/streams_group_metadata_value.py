"""The schema of StreamsGroupMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class LastAssignmentConfig(Struct):
    """Part of `StreamsGroupMetadataValue`."""

    key: str = field("string 0+", default="")
    value: str = field("string 0+", default="")


class StreamsGroupMetadataValue(Message, kind="coordinator-value", api_key=17, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 17."""

    epoch: int = field("int32 0+", default=0)
    metadata_hash: int = field("int64 0+", default=0)
    validated_topology_epoch: int = field("int32 0+ tag=0@0+", default=-1)
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = field(
        "[]LastAssignmentConfig 0+ nullable=0+ tag=1@0+", default=()
    )
