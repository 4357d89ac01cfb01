"""The requests and responses of DescribeGroups (api key 15).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribeGroupsRequest(Message, kind="request", api_key=15, versions="0-6", flexible="5+"):
    """Request of api key 15."""

    groups: tuple[str, ...] = field("[]string 0+ entity=groupId", default=())
    include_authorized_operations: bool = field("bool 3+", default=False)


class DescribedGroupMember(Struct):
    """Part of `DescribeGroupsResponse`."""

    member_id: str = field("string 0+", default="")
    group_instance_id: str | None = field("string 4+ nullable=4+ ignorable", default=None)
    client_id: str = field("string 0+", default="")
    client_host: str = field("string 0+", default="")
    member_metadata: bytes = field("bytes 0+", default=b"")
    member_assignment: bytes = field("bytes 0+", default=b"")


class DescribedGroup(Struct):
    """Part of `DescribeGroupsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 6+ nullable=6+", default=None)
    group_id: str = field("string 0+ entity=groupId", default="")
    group_state: str = field("string 0+", default="")
    protocol_type: str = field("string 0+", default="")
    protocol_data: str = field("string 0+", default="")
    members: tuple[DescribedGroupMember, ...] = field("[]DescribedGroupMember 0+", default=())
    authorized_operations: int = field("int32 3+", default=-2147483648)


class DescribeGroupsResponse(Message, kind="response", api_key=15, versions="0-6", flexible="5+"):
    """Response of api key 15."""

    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    groups: tuple[DescribedGroup, ...] = field("[]DescribedGroup 0+", default=())
