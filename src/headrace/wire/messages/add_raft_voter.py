"""The requests and responses of AddRaftVoter (api key 80).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class Listener(Struct):
    """Part of `AddRaftVoterRequest`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class AddRaftVoterRequest(Message, kind="request", api_key=80, versions="0-1", flexible="0+"):
    """Request of api key 80."""

    cluster_id: str | None = field("string 0+ nullable=0+", default="")
    timeout_ms: int = field("int32 0+", default=0)
    voter_id: int = field("int32 0+", default=0)
    voter_directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    listeners: tuple[Listener, ...] = field("[]Listener 0+", default=())
    ack_when_committed: bool = field("bool 1+", default=True)


class AddRaftVoterResponse(Message, kind="response", api_key=80, versions="0-1", flexible="0+"):
    """Response of api key 80."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+ ignorable", default="")
