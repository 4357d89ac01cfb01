"""The requests and responses of ConsumerGroupDescribe (api key 69).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class ConsumerGroupDescribeRequest(Message, kind="request", api_key=69, versions="0-1", flexible="0+"):
    """Request of api key 69."""

    group_ids: tuple[str, ...] = field("[]string 0+ entity=groupId", default=())
    include_authorized_operations: bool = field("bool 0+", default=False)


class TopicPartitions(Struct):
    """Part of `ConsumerGroupDescribeResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class Assignment(Struct):
    """Part of `ConsumerGroupDescribeResponse`."""

    topic_partitions: tuple[TopicPartitions, ...] = field("[]TopicPartitions 0+", default=())


class Member(Struct):
    """Part of `ConsumerGroupDescribeResponse`."""

    member_id: str = field("string 0+", default="")
    instance_id: str | None = field("string 0+ nullable=0+", default=None)
    rack_id: str | None = field("string 0+ nullable=0+", default=None)
    member_epoch: int = field("int32 0+", default=0)
    client_id: str = field("string 0+", default="")
    client_host: str = field("string 0+", default="")
    subscribed_topic_names: tuple[str, ...] = field("[]string 0+ entity=topicName", default=())
    subscribed_topic_regex: str | None = field("string 0+ nullable=0+", default=None)
    assignment: Assignment = field("Assignment 0+", default=Assignment())
    target_assignment: Assignment = field("Assignment 0+", default=Assignment())
    member_type: int = field("int8 1+ ignorable", default=-1)


class DescribedGroup(Struct):
    """Part of `ConsumerGroupDescribeResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    group_id: str = field("string 0+ entity=groupId", default="")
    group_state: str = field("string 0+", default="")
    group_epoch: int = field("int32 0+", default=0)
    assignment_epoch: int = field("int32 0+", default=0)
    assignor_name: str = field("string 0+", default="")
    members: tuple[Member, ...] = field("[]Member 0+", default=())
    authorized_operations: int = field("int32 0+", default=-2147483648)


class ConsumerGroupDescribeResponse(Message, kind="response", api_key=69, versions="0-1", flexible="0+"):
    """Response of api key 69."""

    throttle_time_ms: int = field("int32 0+", default=0)
    groups: tuple[DescribedGroup, ...] = field("[]DescribedGroup 0+", default=())
