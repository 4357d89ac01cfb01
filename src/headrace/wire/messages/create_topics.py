"""The requests and responses of CreateTopics (api key 19).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class CreatableTopicConfig(Struct):
    """Part of `CreateTopicsRequest`."""

    name: str = field("string 0+ key", default="")
    value: str | None = field("string 0+ nullable=0+", default="")


class CreatableReplicaAssignment(Struct):
    """Part of `CreateTopicsRequest`."""

    partition_index: int = field("int32 0+ key", default=0)
    broker_ids: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())


class CreatableTopic(Struct):
    """Part of `CreateTopicsRequest`."""

    name: str = field("string 0+ key entity=topicName", default="")
    num_partitions: int = field("int32 0+", default=0)
    replication_factor: int = field("int16 0+", default=0)
    assignments: tuple[CreatableReplicaAssignment, ...] = field("[]CreatableReplicaAssignment 0+", default=())
    configs: tuple[CreatableTopicConfig, ...] = field("[]CreatableTopicConfig 0+", default=())


class CreateTopicsRequest(Message, kind="request", api_key=19, versions="2-7", flexible="5+"):
    """Request of api key 19."""

    topics: tuple[CreatableTopic, ...] = field("[]CreatableTopic 0+", default=())
    timeout_ms: int = field("int32 0+ name=timeoutMs", default=60000)
    validate_only: bool = field("bool 1+ name=validateOnly", default=False)


class CreatableTopicConfigs(Struct):
    """Part of `CreateTopicsResponse`."""

    name: str = field("string 5+", default="")
    value: str | None = field("string 5+ nullable=5+", default="")
    read_only: bool = field("bool 5+", default=False)
    config_source: int = field("int8 5+ ignorable", default=-1)
    is_sensitive: bool = field("bool 5+", default=False)


class CreatableTopicResult(Struct):
    """Part of `CreateTopicsResponse`."""

    name: str = field("string 0+ key entity=topicName", default="")
    topic_id: Uuid = field("uuid 7+ ignorable", default=ZERO_UUID)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 1+ nullable=0+ ignorable", default="")
    topic_config_error_code: int = field("int16 5+ tag=0@5+ ignorable", default=0)
    num_partitions: int = field("int32 5+ ignorable", default=-1)
    replication_factor: int = field("int16 5+ ignorable", default=-1)
    configs: tuple[CreatableTopicConfigs, ...] | None = field(
        "[]CreatableTopicConfigs 5+ nullable=5+ ignorable", default=()
    )


class CreateTopicsResponse(Message, kind="response", api_key=19, versions="2-7", flexible="5+"):
    """Response of api key 19."""

    throttle_time_ms: int = field("int32 2+ ignorable", default=0)
    topics: tuple[CreatableTopicResult, ...] = field("[]CreatableTopicResult 0+", default=())
