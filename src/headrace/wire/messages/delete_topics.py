"""The requests and responses of DeleteTopics (api key 20).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class DeleteTopicState(Struct):
    """Part of `DeleteTopicsRequest`."""

    name: str | None = field("string 6+ nullable=6+ entity=topicName", default=None)
    topic_id: Uuid = field("uuid 6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, kind="request", api_key=20, versions="1-6", flexible="4+"):
    """Request of api key 20."""

    topics: tuple[DeleteTopicState, ...] = field("[]DeleteTopicState 6+", default=())
    topic_names: tuple[str, ...] = field("[]string 0-5 ignorable entity=topicName", default=())
    timeout_ms: int = field("int32 0+", default=0)


class DeletableTopicResult(Struct):
    """Part of `DeleteTopicsResponse`."""

    name: str | None = field("string 0+ nullable=6+ key entity=topicName", default="")
    topic_id: Uuid = field("uuid 6+ ignorable", default=ZERO_UUID)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 5+ nullable=5+ ignorable", default=None)


class DeleteTopicsResponse(Message, kind="response", api_key=20, versions="1-6", flexible="4+"):
    """Response of api key 20."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    responses: tuple[DeletableTopicResult, ...] = field("[]DeletableTopicResult 0+", default=())
