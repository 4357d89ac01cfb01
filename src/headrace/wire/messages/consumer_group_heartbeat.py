"""The requests and responses of ConsumerGroupHeartbeat (api key 68).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class RequestTopicPartitions(Struct):
    """Part of `ConsumerGroupHeartbeatRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class ConsumerGroupHeartbeatRequest(Message, kind="request", api_key=68, versions="0-1", flexible="0+"):
    """Request of api key 68."""

    group_id: str = field("string 0+ entity=groupId", default="")
    member_id: str = field("string 0+", default="")
    member_epoch: int = field("int32 0+", default=0)
    instance_id: str | None = field("string 0+ nullable=0+", default=None)
    rack_id: str | None = field("string 0+ nullable=0+", default=None)
    rebalance_timeout_ms: int = field("int32 0+", default=-1)
    subscribed_topic_names: tuple[str, ...] | None = field("[]string 0+ nullable=0+ entity=topicName", default=None)
    subscribed_topic_regex: str | None = field("string 1+ nullable=1+", default=None)
    server_assignor: str | None = field("string 0+ nullable=0+", default=None)
    topic_partitions: tuple[RequestTopicPartitions, ...] | None = field(
        "[]RequestTopicPartitions 0+ nullable=0+", default=None
    )


class ResponseTopicPartitions(Struct):
    """Part of `ConsumerGroupHeartbeatResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class Assignment(Struct):
    """Part of `ConsumerGroupHeartbeatResponse`."""

    topic_partitions: tuple[ResponseTopicPartitions, ...] = field("[]ResponseTopicPartitions 0+", default=())


class ConsumerGroupHeartbeatResponse(Message, kind="response", api_key=68, versions="0-1", flexible="0+"):
    """Response of api key 68."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    member_id: str | None = field("string 0+ nullable=0+", default=None)
    member_epoch: int = field("int32 0+", default=0)
    heartbeat_interval_ms: int = field("int32 0+", default=0)
    assignment: Assignment | None = field("Assignment 0+ nullable=0+", default=None)
