"""The requests and responses of AlterPartitionReassignments (api key 45).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ReassignablePartition(Struct):
    """Part of `AlterPartitionReassignmentsRequest`."""

    partition_index: int = field("int32 0+", default=0)
    replicas: tuple[int, ...] | None = field("[]int32 0+ nullable=0+ entity=brokerId", default=None)


class ReassignableTopic(Struct):
    """Part of `AlterPartitionReassignmentsRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ReassignablePartition, ...] = field("[]ReassignablePartition 0+", default=())


class AlterPartitionReassignmentsRequest(Message, kind="request", api_key=45, versions="0-1", flexible="0+"):
    """Request of api key 45."""

    timeout_ms: int = field("int32 0+", default=60000)
    allow_replication_factor_change: bool = field("bool 1+", default=True)
    topics: tuple[ReassignableTopic, ...] = field("[]ReassignableTopic 0+", default=())


class ReassignablePartitionResponse(Struct):
    """Part of `AlterPartitionReassignmentsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")


class ReassignableTopicResponse(Struct):
    """Part of `AlterPartitionReassignmentsResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[ReassignablePartitionResponse, ...] = field("[]ReassignablePartitionResponse 0+", default=())


class AlterPartitionReassignmentsResponse(Message, kind="response", api_key=45, versions="0-1", flexible="0+"):
    """Response of api key 45."""

    throttle_time_ms: int = field("int32 0+", default=0)
    allow_replication_factor_change: bool = field("bool 1+ ignorable", default=True)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    responses: tuple[ReassignableTopicResponse, ...] = field("[]ReassignableTopicResponse 0+", default=())
