"""The requests and responses of DescribeAcls (api key 29).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribeAclsRequest(Message, kind="request", api_key=29, versions="1-3", flexible="2+"):
    """Request of api key 29."""

    resource_type_filter: int = field("int8 0+", default=0)
    resource_name_filter: str | None = field("string 0+ nullable=0+", default="")
    pattern_type_filter: int = field("int8 1+", default=3)
    principal_filter: str | None = field("string 0+ nullable=0+", default="")
    host_filter: str | None = field("string 0+ nullable=0+", default="")
    operation: int = field("int8 0+", default=0)
    permission_type: int = field("int8 0+", default=0)


class AclDescription(Struct):
    """Part of `DescribeAclsResponse`."""

    principal: str = field("string 0+", default="")
    host: str = field("string 0+", default="")
    operation: int = field("int8 0+", default=0)
    permission_type: int = field("int8 0+", default=0)


class DescribeAclsResource(Struct):
    """Part of `DescribeAclsResponse`."""

    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    pattern_type: int = field("int8 1+", default=3)
    acls: tuple[AclDescription, ...] = field("[]AclDescription 0+", default=())


class DescribeAclsResponse(Message, kind="response", api_key=29, versions="1-3", flexible="2+"):
    """Response of api key 29."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    resources: tuple[DescribeAclsResource, ...] = field("[]DescribeAclsResource 0+", default=())
