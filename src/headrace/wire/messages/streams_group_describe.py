"""The requests and responses of StreamsGroupDescribe (api key 89).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class StreamsGroupDescribeRequest(Message, kind="request", api_key=89, versions="0", flexible="0+"):
    """Request of api key 89."""

    group_ids: tuple[str, ...] = field("[]string 0+ entity=groupId", default=())
    include_authorized_operations: bool = field("bool 0+", default=False)


class Endpoint(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class KeyValue(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    key: str = field("string 0+", default="")
    value: str = field("string 0+", default="")


class TaskOffset(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    subtopology_id: str = field("string 0+", default="")
    partition: int = field("int32 0+", default=0)
    offset: int = field("int64 0+", default=0)


class TaskIds(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    subtopology_id: str = field("string 0+", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class Assignment(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    active_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    standby_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())
    warmup_tasks: tuple[TaskIds, ...] = field("[]TaskIds 0+", default=())


class Member(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    member_id: str = field("string 0+", default="")
    member_epoch: int = field("int32 0+", default=0)
    instance_id: str | None = field("string 0+ nullable=0+", default=None)
    rack_id: str | None = field("string 0+ nullable=0+", default=None)
    client_id: str = field("string 0+", default="")
    client_host: str = field("string 0+", default="")
    topology_epoch: int = field("int32 0+", default=0)
    process_id: str = field("string 0+", default="")
    user_endpoint: Endpoint | None = field("Endpoint 0+ nullable=0+", default=None)
    client_tags: tuple[KeyValue, ...] = field("[]KeyValue 0+", default=())
    task_offsets: tuple[TaskOffset, ...] = field("[]TaskOffset 0+", default=())
    task_end_offsets: tuple[TaskOffset, ...] = field("[]TaskOffset 0+", default=())
    assignment: Assignment = field("Assignment 0+", default=Assignment())
    target_assignment: Assignment = field("Assignment 0+", default=Assignment())
    is_classic: bool = field("bool 0+", default=False)


class TopicInfo(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: int = field("int32 0+", default=0)
    replication_factor: int = field("int16 0+", default=0)
    topic_configs: tuple[KeyValue, ...] = field("[]KeyValue 0+", default=())


class Subtopology(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    subtopology_id: str = field("string 0+", default="")
    source_topics: tuple[str, ...] = field("[]string 0+ entity=topicName", default=())
    repartition_sink_topics: tuple[str, ...] = field("[]string 0+ entity=topicName", default=())
    state_changelog_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())
    repartition_source_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())


class Topology(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    epoch: int = field("int32 0+", default=0)
    subtopologies: tuple[Subtopology, ...] | None = field("[]Subtopology 0+ nullable=0+", default=None)


class DescribedGroup(Struct):
    """Part of `StreamsGroupDescribeResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    group_id: str = field("string 0+ entity=groupId", default="")
    group_state: str = field("string 0+", default="")
    group_epoch: int = field("int32 0+", default=0)
    assignment_epoch: int = field("int32 0+", default=0)
    topology: Topology | None = field("Topology 0+ nullable=0+", default=None)
    members: tuple[Member, ...] = field("[]Member 0+", default=())
    authorized_operations: int = field("int32 0+", default=-2147483648)


class StreamsGroupDescribeResponse(Message, kind="response", api_key=89, versions="0", flexible="0+"):
    """Response of api key 89."""

    throttle_time_ms: int = field("int32 0+", default=0)
    groups: tuple[DescribedGroup, ...] = field("[]DescribedGroup 0+", default=())
