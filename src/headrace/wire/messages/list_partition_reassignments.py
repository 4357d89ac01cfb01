"""The requests and responses of ListPartitionReassignments (api key 46).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    """Part of `ListPartitionReassignmentsRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partition_indexes: tuple[int, ...] = field("[]int32 0+", default=())


class ListPartitionReassignmentsRequest(Message, kind="request", api_key=46, versions="0", flexible="0+"):
    """Request of api key 46."""

    timeout_ms: int = field("int32 0+", default=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = field(
        "[]ListPartitionReassignmentsTopics 0+ nullable=0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    """Part of `ListPartitionReassignmentsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    replicas: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    adding_replicas: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    removing_replicas: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())


class OngoingTopicReassignment(Struct):
    """Part of `ListPartitionReassignmentsResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[OngoingPartitionReassignment, ...] = field("[]OngoingPartitionReassignment 0+", default=())


class ListPartitionReassignmentsResponse(Message, kind="response", api_key=46, versions="0", flexible="0+"):
    """Response of api key 46."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    topics: tuple[OngoingTopicReassignment, ...] = field("[]OngoingTopicReassignment 0+", default=())
