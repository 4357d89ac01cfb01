"""The requests and responses of RemoveRaftVoter (api key 81).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class RemoveRaftVoterRequest(Message, kind="request", api_key=81, versions="0", flexible="0+"):
    """Request of api key 81."""

    cluster_id: str | None = field("string 0+ nullable=0+", default="")
    voter_id: int = field("int32 0+", default=0)
    voter_directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)


class RemoveRaftVoterResponse(Message, kind="response", api_key=81, versions="0", flexible="0+"):
    """Response of api key 81."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+ ignorable", default="")
