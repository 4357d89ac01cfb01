"""The requests and responses of CreatePartitions (api key 37).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    """Part of `CreatePartitionsRequest`."""

    broker_ids: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())


class CreatePartitionsTopic(Struct):
    """Part of `CreatePartitionsRequest`."""

    name: str = field("string 0+ key entity=topicName", default="")
    count: int = field("int32 0+", default=0)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = field(
        "[]CreatePartitionsAssignment 0+ nullable=0+", default=()
    )


class CreatePartitionsRequest(Message, kind="request", api_key=37, versions="0-3", flexible="2+"):
    """Request of api key 37."""

    topics: tuple[CreatePartitionsTopic, ...] = field("[]CreatePartitionsTopic 0+", default=())
    timeout_ms: int = field("int32 0+", default=0)
    validate_only: bool = field("bool 0+", default=False)


class CreatePartitionsTopicResult(Struct):
    """Part of `CreatePartitionsResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class CreatePartitionsResponse(Message, kind="response", api_key=37, versions="0-3", flexible="2+"):
    """Response of api key 37."""

    throttle_time_ms: int = field("int32 0+", default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = field("[]CreatePartitionsTopicResult 0+", default=())
