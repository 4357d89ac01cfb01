"""The schema of ConsumerGroupMemberMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ClassicProtocol(Struct):
    """Part of `ConsumerGroupMemberMetadataValue`."""

    name: str = field("string 0+", default="")
    metadata: bytes = field("bytes 0+", default=b"")


class ClassicMemberMetadata(Struct):
    """Part of `ConsumerGroupMemberMetadataValue`."""

    session_timeout_ms: int = field("int32 0+", default=0)
    supported_protocols: tuple[ClassicProtocol, ...] = field("[]ClassicProtocol 0+", default=())


class ConsumerGroupMemberMetadataValue(Message, kind="coordinator-value", api_key=5, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 5."""

    instance_id: str | None = field("string 0+ nullable=0+", default="")
    rack_id: str | None = field("string 0+ nullable=0+", default="")
    client_id: str = field("string 0+", default="")
    client_host: str = field("string 0+", default="")
    subscribed_topic_names: tuple[str, ...] = field("[]string 0+", default=())
    subscribed_topic_regex: str | None = field("string 0+ nullable=0+", default="")
    rebalance_timeout_ms: int = field("int32 0+", default=-1)
    server_assignor: str | None = field("string 0+ nullable=0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        "ClassicMemberMetadata 0+ nullable=0+ tag=0@0+", default=ClassicMemberMetadata()
    )
