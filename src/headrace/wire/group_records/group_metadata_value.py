"""The schema of GroupMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class MemberMetadata(Struct):
    """Part of `GroupMetadataValue`."""

    member_id: str = field("string 0+ name=memberId", default="")
    group_instance_id: str | None = field("string 3+ nullable=3+ ignorable name=groupInstanceId", default=None)
    client_id: str = field("string 0+ name=clientId", default="")
    client_host: str = field("string 0+ name=clientHost", default="")
    rebalance_timeout: int = field("int32 1+ ignorable name=rebalanceTimeout", default=-1)
    session_timeout: int = field("int32 0+ name=sessionTimeout", default=0)
    subscription: bytes = field("bytes 0+ name=subscription", default=b"")
    assignment: bytes = field("bytes 0+ name=assignment", default=b"")


class GroupMetadataValue(Message, kind="coordinator-value", api_key=2, versions="0-4", flexible="4+"):
    """Value of a coordinator's record of type 2."""

    protocol_type: str = field("string 0+ name=protocolType", default="")
    generation: int = field("int32 0+ name=generation", default=0)
    protocol: str | None = field("string 0+ nullable=0+ name=protocol", default="")
    leader: str | None = field("string 0+ nullable=0+ name=leader", default="")
    current_state_timestamp: int = field("int64 2+ ignorable name=currentStateTimestamp", default=-1)
    members: tuple[MemberMetadata, ...] = field("[]MemberMetadata 0+ name=members", default=())
