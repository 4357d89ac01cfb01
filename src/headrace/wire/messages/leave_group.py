"""The requests and responses of LeaveGroup (api key 13).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class MemberIdentity(Struct):
    """Part of `LeaveGroupRequest`."""

    member_id: str = field("string 3+", default="")
    group_instance_id: str | None = field("string 3+ nullable=3+", default=None)
    reason: str | None = field("string 5+ nullable=5+ ignorable", default=None)


class LeaveGroupRequest(Message, kind="request", api_key=13, versions="0-5", flexible="4+"):
    """Request of api key 13."""

    group_id: str = field("string 0+ entity=groupId", default="")
    member_id: str = field("string 0-2", default="")
    members: tuple[MemberIdentity, ...] = field("[]MemberIdentity 3+", default=())


class MemberResponse(Struct):
    """Part of `LeaveGroupResponse`."""

    member_id: str = field("string 3+", default="")
    group_instance_id: str | None = field("string 3+ nullable=3+", default="")
    error_code: int = field("int16 3+", default=0)


class LeaveGroupResponse(Message, kind="response", api_key=13, versions="0-5", flexible="4+"):
    """Response of api key 13."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
    members: tuple[MemberResponse, ...] = field("[]MemberResponse 3+", default=())
