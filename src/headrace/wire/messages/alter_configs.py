"""The requests and responses of AlterConfigs (api key 33).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class AlterableConfig(Struct):
    """Part of `AlterConfigsRequest`."""

    name: str = field("string 0+ key", default="")
    value: str | None = field("string 0+ nullable=0+", default="")


class AlterConfigsResource(Struct):
    """Part of `AlterConfigsRequest`."""

    resource_type: int = field("int8 0+ key", default=0)
    resource_name: str = field("string 0+ key", default="")
    configs: tuple[AlterableConfig, ...] = field("[]AlterableConfig 0+", default=())


class AlterConfigsRequest(Message, kind="request", api_key=33, versions="0-2", flexible="2+"):
    """Request of api key 33."""

    resources: tuple[AlterConfigsResource, ...] = field("[]AlterConfigsResource 0+", default=())
    validate_only: bool = field("bool 0+", default=False)


class AlterConfigsResourceResponse(Struct):
    """Part of `AlterConfigsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")


class AlterConfigsResponse(Message, kind="response", api_key=33, versions="0-2", flexible="2+"):
    """Response of api key 33."""

    throttle_time_ms: int = field("int32 0+", default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = field("[]AlterConfigsResourceResponse 0+", default=())
