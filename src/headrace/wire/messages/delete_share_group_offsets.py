"""The requests and responses of DeleteShareGroupOffsets (api key 92).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """Part of `DeleteShareGroupOffsetsRequest`."""

    topic_name: str = field("string 0+ entity=topicName", default="")


class DeleteShareGroupOffsetsRequest(Message, kind="request", api_key=92, versions="0", flexible="0+"):
    """Request of api key 92."""

    group_id: str = field("string 0+ entity=groupId", default="")
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = field(
        "[]DeleteShareGroupOffsetsRequestTopic 0+", default=()
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """Part of `DeleteShareGroupOffsetsResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, kind="response", api_key=92, versions="0", flexible="0+"):
    """Response of api key 92."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = field(
        "[]DeleteShareGroupOffsetsResponseTopic 0+", default=()
    )
