"""The requests and responses of JoinGroup (api key 11).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    """Part of `JoinGroupRequest`."""

    name: str = field("string 0+ key", default="")
    metadata: bytes = field("bytes 0+", default=b"")


class JoinGroupRequest(Message, kind="request", api_key=11, versions="0-9", flexible="6+"):
    """Request of api key 11."""

    group_id: str = field("string 0+ entity=groupId", default="")
    session_timeout_ms: int = field("int32 0+", default=0)
    rebalance_timeout_ms: int = field("int32 1+ ignorable", default=-1)
    member_id: str = field("string 0+", default="")
    group_instance_id: str | None = field("string 5+ nullable=5+", default=None)
    protocol_type: str = field("string 0+", default="")
    protocols: tuple[JoinGroupRequestProtocol, ...] = field("[]JoinGroupRequestProtocol 0+", default=())
    reason: str | None = field("string 8+ nullable=8+ ignorable", default=None)


class JoinGroupResponseMember(Struct):
    """Part of `JoinGroupResponse`."""

    member_id: str = field("string 0+", default="")
    group_instance_id: str | None = field("string 5+ nullable=5+ ignorable", default=None)
    metadata: bytes = field("bytes 0+", default=b"")


class JoinGroupResponse(Message, kind="response", api_key=11, versions="0-9", flexible="6+"):
    """Response of api key 11."""

    throttle_time_ms: int = field("int32 2+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
    generation_id: int = field("int32 0+", default=-1)
    protocol_type: str | None = field("string 7+ nullable=7+ ignorable", default=None)
    protocol_name: str | None = field("string 0+ nullable=7+", default="")
    leader: str = field("string 0+", default="")
    skip_assignment: bool = field("bool 9+", default=False)
    member_id: str = field("string 0+", default="")
    members: tuple[JoinGroupResponseMember, ...] = field("[]JoinGroupResponseMember 0+", default=())
