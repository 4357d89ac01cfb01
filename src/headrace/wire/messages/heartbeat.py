"""The requests and responses of Heartbeat (api key 12).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class HeartbeatRequest(Message, kind="request", api_key=12, versions="0-4", flexible="4+"):
    """Request of api key 12."""

    group_id: str = field("string 0+ entity=groupId", default="")
    generation_id: int = field("int32 0+", default=0)
    member_id: str = field("string 0+", default="")
    group_instance_id: str | None = field("string 3+ nullable=3+", default=None)


class HeartbeatResponse(Message, kind="response", api_key=12, versions="0-4", flexible="4+"):
    """Response of api key 12."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
