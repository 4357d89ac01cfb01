"""The requests and responses of ElectLeaders (api key 43).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class TopicPartitions(Struct):
    """Part of `ElectLeadersRequest`."""

    topic: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class ElectLeadersRequest(Message, kind="request", api_key=43, versions="0-2", flexible="2+"):
    """Request of api key 43."""

    election_type: int = field("int8 1+", default=0)
    topic_partitions: tuple[TopicPartitions, ...] | None = field("[]TopicPartitions 0+ nullable=0+", default=())
    timeout_ms: int = field("int32 0+", default=60000)


class PartitionResult(Struct):
    """Part of `ElectLeadersResponse`."""

    partition_id: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")


class ReplicaElectionResult(Struct):
    """Part of `ElectLeadersResponse`."""

    topic: str = field("string 0+ entity=topicName", default="")
    partition_result: tuple[PartitionResult, ...] = field("[]PartitionResult 0+", default=())


class ElectLeadersResponse(Message, kind="response", api_key=43, versions="0-2", flexible="2+"):
    """Response of api key 43."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 1+", default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = field("[]ReplicaElectionResult 0+", default=())
