"""The requests and responses of DeleteAcls (api key 31).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DeleteAclsFilter(Struct):
    """Part of `DeleteAclsRequest`."""

    resource_type_filter: int = field("int8 0+", default=0)
    resource_name_filter: str | None = field("string 0+ nullable=0+", default="")
    pattern_type_filter: int = field("int8 1+", default=3)
    principal_filter: str | None = field("string 0+ nullable=0+", default="")
    host_filter: str | None = field("string 0+ nullable=0+", default="")
    operation: int = field("int8 0+", default=0)
    permission_type: int = field("int8 0+", default=0)


class DeleteAclsRequest(Message, kind="request", api_key=31, versions="1-3", flexible="2+"):
    """Request of api key 31."""

    filters: tuple[DeleteAclsFilter, ...] = field("[]DeleteAclsFilter 0+", default=())


class DeleteAclsMatchingAcl(Struct):
    """Part of `DeleteAclsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    pattern_type: int = field("int8 1+", default=3)
    principal: str = field("string 0+", default="")
    host: str = field("string 0+", default="")
    operation: int = field("int8 0+", default=0)
    permission_type: int = field("int8 0+", default=0)


class DeleteAclsFilterResult(Struct):
    """Part of `DeleteAclsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = field("[]DeleteAclsMatchingAcl 0+", default=())


class DeleteAclsResponse(Message, kind="response", api_key=31, versions="1-3", flexible="2+"):
    """Response of api key 31."""

    throttle_time_ms: int = field("int32 0+", default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = field("[]DeleteAclsFilterResult 0+", default=())
