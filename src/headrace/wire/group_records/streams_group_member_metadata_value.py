"""The schema of StreamsGroupMemberMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class KeyValue(Struct):
    """Part of `StreamsGroupMemberMetadataValue`."""

    key: str = field("string 0+", default="")
    value: str = field("string 0+", default="")


class Endpoint(Struct):
    """Part of `StreamsGroupMemberMetadataValue`."""

    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class StreamsGroupMemberMetadataValue(Message, kind="coordinator-value", api_key=19, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 19."""

    instance_id: str | None = field("string 0+ nullable=0+", default="")
    rack_id: str | None = field("string 0+ nullable=0+", default="")
    client_id: str = field("string 0+", default="")
    client_host: str = field("string 0+", default="")
    rebalance_timeout_ms: int = field("int32 0+", default=-1)
    topology_epoch: int = field("int32 0+", default=0)
    process_id: str = field("string 0+", default="")
    user_endpoint: Endpoint | None = field("Endpoint 0+ nullable=0+", default=None)
    client_tags: tuple[KeyValue, ...] = field("[]KeyValue 0+", default=())
