"""The requests and responses of SyncGroup (api key 14).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    """Part of `SyncGroupRequest`."""

    member_id: str = field("string 0+", default="")
    assignment: bytes = field("bytes 0+", default=b"")


class SyncGroupRequest(Message, kind="request", api_key=14, versions="0-5", flexible="4+"):
    """Request of api key 14."""

    group_id: str = field("string 0+ entity=groupId", default="")
    generation_id: int = field("int32 0+", default=0)
    member_id: str = field("string 0+", default="")
    group_instance_id: str | None = field("string 3+ nullable=3+", default=None)
    protocol_type: str | None = field("string 5+ nullable=5+ ignorable", default=None)
    protocol_name: str | None = field("string 5+ nullable=5+ ignorable", default=None)
    assignments: tuple[SyncGroupRequestAssignment, ...] = field("[]SyncGroupRequestAssignment 0+", default=())


class SyncGroupResponse(Message, kind="response", api_key=14, versions="0-5", flexible="4+"):
    """Response of api key 14."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
    protocol_type: str | None = field("string 5+ nullable=5+ ignorable", default=None)
    protocol_name: str | None = field("string 5+ nullable=5+ ignorable", default=None)
    assignment: bytes = field("bytes 0+", default=b"")
