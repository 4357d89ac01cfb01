"""The requests and responses of ShareGroupHeartbeat (api key 76).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class ShareGroupHeartbeatRequest(Message, kind="request", api_key=76, versions="1", flexible="0+"):
    """Request of api key 76."""

    group_id: str = field("string 0+ entity=groupId", default="")
    member_id: str = field("string 0+", default="")
    member_epoch: int = field("int32 0+", default=0)
    rack_id: str | None = field("string 0+ nullable=0+", default=None)
    subscribed_topic_names: tuple[str, ...] | None = field("[]string 0+ nullable=0+ entity=topicName", default=None)


class TopicPartitions(Struct):
    """Part of `ShareGroupHeartbeatResponse`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class Assignment(Struct):
    """Part of `ShareGroupHeartbeatResponse`."""

    topic_partitions: tuple[TopicPartitions, ...] = field("[]TopicPartitions 0+", default=())


class ShareGroupHeartbeatResponse(Message, kind="response", api_key=76, versions="1", flexible="0+"):
    """Response of api key 76."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    member_id: str | None = field("string 0+ nullable=0+", default=None)
    member_epoch: int = field("int32 0+", default=0)
    heartbeat_interval_ms: int = field("int32 0+", default=0)
    assignment: Assignment | None = field("Assignment 0+ nullable=0+", default=None)
