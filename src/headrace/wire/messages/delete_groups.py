"""The requests and responses of DeleteGroups (api key 42).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DeleteGroupsRequest(Message, kind="request", api_key=42, versions="0-2", flexible="2+"):
    """Request of api key 42."""

    groups_names: tuple[str, ...] = field("[]string 0+ entity=groupId", default=())


class DeletableGroupResult(Struct):
    """Part of `DeleteGroupsResponse`."""

    group_id: str = field("string 0+ key entity=groupId", default="")
    error_code: int = field("int16 0+", default=0)


class DeleteGroupsResponse(Message, kind="response", api_key=42, versions="0-2", flexible="2+"):
    """Response of api key 42."""

    throttle_time_ms: int = field("int32 0+", default=0)
    results: tuple[DeletableGroupResult, ...] = field("[]DeletableGroupResult 0+", default=())
