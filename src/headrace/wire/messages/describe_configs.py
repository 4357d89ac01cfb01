"""The requests and responses of DescribeConfigs (api key 32).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribeConfigsResource(Struct):
    """Part of `DescribeConfigsRequest`."""

    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    configuration_keys: tuple[str, ...] | None = field("[]string 0+ nullable=0+", default=())


class DescribeConfigsRequest(Message, kind="request", api_key=32, versions="1-4", flexible="4+"):
    """Request of api key 32."""

    resources: tuple[DescribeConfigsResource, ...] = field("[]DescribeConfigsResource 0+", default=())
    include_synonyms: bool = field("bool 1+", default=False)
    include_documentation: bool = field("bool 3+", default=False)


class DescribeConfigsSynonym(Struct):
    """Part of `DescribeConfigsResponse`."""

    name: str = field("string 1+", default="")
    value: str | None = field("string 1+ nullable=0+", default="")
    source: int = field("int8 1+", default=0)


class DescribeConfigsResourceResult(Struct):
    """Part of `DescribeConfigsResponse`."""

    name: str = field("string 0+", default="")
    value: str | None = field("string 0+ nullable=0+", default="")
    read_only: bool = field("bool 0+", default=False)
    config_source: int = field("int8 1+ ignorable", default=-1)
    is_sensitive: bool = field("bool 0+", default=False)
    synonyms: tuple[DescribeConfigsSynonym, ...] = field("[]DescribeConfigsSynonym 1+ ignorable", default=())
    config_type: int = field("int8 3+ ignorable", default=0)
    documentation: str | None = field("string 3+ nullable=0+ ignorable", default="")


class DescribeConfigsResult(Struct):
    """Part of `DescribeConfigsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    configs: tuple[DescribeConfigsResourceResult, ...] = field("[]DescribeConfigsResourceResult 0+", default=())


class DescribeConfigsResponse(Message, kind="response", api_key=32, versions="1-4", flexible="4+"):
    """Response of api key 32."""

    throttle_time_ms: int = field("int32 0+", default=0)
    results: tuple[DescribeConfigsResult, ...] = field("[]DescribeConfigsResult 0+", default=())
