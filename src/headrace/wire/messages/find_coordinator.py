"""The requests and responses of FindCoordinator (api key 10).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class FindCoordinatorRequest(Message, kind="request", api_key=10, versions="0-6", flexible="3+"):
    """Request of api key 10."""

    key: str = field("string 0-3", default="")
    key_type: int = field("int8 1+", default=0)
    coordinator_keys: tuple[str, ...] = field("[]string 4+", default=())


class Coordinator(Struct):
    """Part of `FindCoordinatorResponse`."""

    key: str = field("string 4+", default="")
    node_id: int = field("int32 4+ entity=brokerId", default=0)
    host: str = field("string 4+", default="")
    port: int = field("int32 4+", default=0)
    error_code: int = field("int16 4+", default=0)
    error_message: str | None = field("string 4+ nullable=4+ ignorable", default="")


class FindCoordinatorResponse(Message, kind="response", api_key=10, versions="0-6", flexible="3+"):
    """Response of api key 10."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    error_code: int = field("int16 0-3", default=0)
    error_message: str | None = field("string 1-3 nullable=1-3 ignorable", default="")
    node_id: int = field("int32 0-3 entity=brokerId", default=0)
    host: str = field("string 0-3", default="")
    port: int = field("int32 0-3", default=0)
    coordinators: tuple[Coordinator, ...] = field("[]Coordinator 4+", default=())
