"""The requests and responses of IncrementalAlterConfigs (api key 44).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class AlterableConfig(Struct):
    """Part of `IncrementalAlterConfigsRequest`."""

    name: str = field("string 0+ key", default="")
    config_operation: int = field("int8 0+ key", default=0)
    value: str | None = field("string 0+ nullable=0+", default="")


class AlterConfigsResource(Struct):
    """Part of `IncrementalAlterConfigsRequest`."""

    resource_type: int = field("int8 0+ key", default=0)
    resource_name: str = field("string 0+ key", default="")
    configs: tuple[AlterableConfig, ...] = field("[]AlterableConfig 0+", default=())


class IncrementalAlterConfigsRequest(Message, kind="request", api_key=44, versions="0-1", flexible="1+"):
    """Request of api key 44."""

    resources: tuple[AlterConfigsResource, ...] = field("[]AlterConfigsResource 0+", default=())
    validate_only: bool = field("bool 0+", default=False)


class AlterConfigsResourceResponse(Struct):
    """Part of `IncrementalAlterConfigsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")


class IncrementalAlterConfigsResponse(Message, kind="response", api_key=44, versions="0-1", flexible="1+"):
    """Response of api key 44."""

    throttle_time_ms: int = field("int32 0+", default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = field("[]AlterConfigsResourceResponse 0+", default=())
