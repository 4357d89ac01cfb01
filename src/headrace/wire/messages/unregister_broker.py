"""The requests and responses of UnregisterBroker (api key 64).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class UnregisterBrokerRequest(Message, kind="request", api_key=64, versions="0", flexible="0+"):
    """Request of api key 64."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    remove_from_assignments: bool = field("bool 0+ tag=10000@0+", default=False)
    force: bool = field("bool 0+ tag=10001@0+", default=False)


class EmptiedTopic(Struct):
    """Part of `UnregisterBrokerResponse`."""

    name: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class UnregisterBrokerResponse(Message, kind="response", api_key=64, versions="0", flexible="0+"):
    """Response of api key 64."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    emptied_topics: tuple[EmptiedTopic, ...] = field("[]EmptiedTopic 0+ tag=10000@0+ ignorable", default=())
