"""The requests and responses of ListGroups (api key 16).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ListGroupsRequest(Message, kind="request", api_key=16, versions="0-5", flexible="3+"):
    """Request of api key 16."""

    states_filter: tuple[str, ...] = field("[]string 4+", default=())
    types_filter: tuple[str, ...] = field("[]string 5+", default=())


class ListedGroup(Struct):
    """Part of `ListGroupsResponse`."""

    group_id: str = field("string 0+ entity=groupId", default="")
    protocol_type: str = field("string 0+", default="")
    group_state: str = field("string 4+ ignorable", default="")
    group_type: str = field("string 5+ ignorable", default="")


class ListGroupsResponse(Message, kind="response", api_key=16, versions="0-5", flexible="3+"):
    """Response of api key 16."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    error_code: int = field("int16 0+", default=0)
    groups: tuple[ListedGroup, ...] = field("[]ListedGroup 0+", default=())
