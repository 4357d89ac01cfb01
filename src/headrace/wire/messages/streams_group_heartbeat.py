"""The requests and responses of StreamsGroupHeartbeat (api key 88).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class CopartitionGroup(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    source_topics: tuple[int, ...] = field("[]int16 0+", default=())
    source_topic_regex: tuple[int, ...] = field("[]int16 0+", default=())
    repartition_source_topics: tuple[int, ...] = field("[]int16 0+", default=())


class KeyValue(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    key: str = field("string 0+", default="")
    value: str = field("string 0+", default="")


class TopicInfo(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: int = field("int32 0+", default=0)
    replication_factor: int = field("int16 0+", default=0)
    topic_configs: tuple[KeyValue, ...] = field("[]KeyValue 0+", default=())


class Subtopology(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    subtopology_id: str = field("string 0+", default="")
    source_topics: tuple[str, ...] = field("[]string 0+ entity=topicName", default=())
    source_topic_regex: tuple[str, ...] = field("[]string 0+", default=())
    state_changelog_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())
    repartition_sink_topics: tuple[str, ...] = field("[]string 0+ entity=topicName", default=())
    repartition_source_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())
    copartition_groups: tuple[CopartitionGroup, ...] = field("[]CopartitionGroup 0+", default=())


class Topology(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    epoch: int = field("int32 0+", default=0)
    subtopologies: tuple[Subtopology, ...] = field("[]Subtopology 0+", default=())


class RequestTaskIds(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    subtopology_id: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class TaskOffset(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    subtopology_id: str = field("string 0+", default="")
    partition: int = field("int32 0+", default=0)
    offset: int = field("int64 0+", default=0)


class RequestEndpoint(Struct):
    """Part of `StreamsGroupHeartbeatRequest`."""

    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class StreamsGroupHeartbeatRequest(Message, kind="request", api_key=88, versions="0", flexible="0+"):
    """Request of api key 88."""

    group_id: str = field("string 0+ entity=groupId", default="")
    member_id: str = field("string 0+", default="")
    member_epoch: int = field("int32 0+", default=0)
    endpoint_information_epoch: int = field("int32 0+", default=0)
    instance_id: str | None = field("string 0+ nullable=0+", default=None)
    rack_id: str | None = field("string 0+ nullable=0+", default=None)
    rebalance_timeout_ms: int = field("int32 0+", default=-1)
    topology: Topology | None = field("Topology 0+ nullable=0+", default=None)
    active_tasks: tuple[RequestTaskIds, ...] | None = field("[]RequestTaskIds 0+ nullable=0+", default=None)
    standby_tasks: tuple[RequestTaskIds, ...] | None = field("[]RequestTaskIds 0+ nullable=0+", default=None)
    warmup_tasks: tuple[RequestTaskIds, ...] | None = field("[]RequestTaskIds 0+ nullable=0+", default=None)
    process_id: str | None = field("string 0+ nullable=0+", default=None)
    user_endpoint: RequestEndpoint | None = field("RequestEndpoint 0+ nullable=0+", default=None)
    client_tags: tuple[KeyValue, ...] | None = field("[]KeyValue 0+ nullable=0+", default=None)
    task_offsets: tuple[TaskOffset, ...] | None = field("[]TaskOffset 0+ nullable=0+", default=None)
    task_end_offsets: tuple[TaskOffset, ...] | None = field("[]TaskOffset 0+ nullable=0+", default=None)
    shutdown_application: bool = field("bool 0+", default=False)


class ResponseEndpoint(Struct):
    """Part of `StreamsGroupHeartbeatResponse`."""

    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class TopicPartition(Struct):
    """Part of `StreamsGroupHeartbeatResponse`."""

    topic: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class EndpointToPartitions(Struct):
    """Part of `StreamsGroupHeartbeatResponse`."""

    user_endpoint: ResponseEndpoint = field("ResponseEndpoint 0+", default=ResponseEndpoint())
    active_partitions: tuple[TopicPartition, ...] = field("[]TopicPartition 0+", default=())
    standby_partitions: tuple[TopicPartition, ...] = field("[]TopicPartition 0+", default=())


class ResponseTaskIds(Struct):
    """Part of `StreamsGroupHeartbeatResponse`."""

    subtopology_id: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class Status(Struct):
    """Part of `StreamsGroupHeartbeatResponse`."""

    status_code: int = field("int8 0+", default=0)
    status_detail: str = field("string 0+", default="")


class StreamsGroupHeartbeatResponse(Message, kind="response", api_key=88, versions="0", flexible="0+"):
    """Response of api key 88."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    member_id: str = field("string 0+", default="")
    member_epoch: int = field("int32 0+", default=0)
    heartbeat_interval_ms: int = field("int32 0+", default=0)
    acceptable_recovery_lag: int = field("int32 0+", default=0)
    task_offset_interval_ms: int = field("int32 0+", default=0)
    status: tuple[Status, ...] | None = field("[]Status 0+ nullable=0+", default=())
    active_tasks: tuple[ResponseTaskIds, ...] | None = field("[]ResponseTaskIds 0+ nullable=0+", default=None)
    standby_tasks: tuple[ResponseTaskIds, ...] | None = field("[]ResponseTaskIds 0+ nullable=0+", default=None)
    warmup_tasks: tuple[ResponseTaskIds, ...] | None = field("[]ResponseTaskIds 0+ nullable=0+", default=None)
    endpoint_information_epoch: int = field("int32 0+", default=0)
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = field(
        "[]EndpointToPartitions 0+ nullable=0+", default=None
    )
