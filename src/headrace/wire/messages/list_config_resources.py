"""The requests and responses of ListConfigResources (api key 74).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ListConfigResourcesRequest(Message, kind="request", api_key=74, versions="0-1", flexible="0+"):
    """Request of api key 74."""

    resource_types: tuple[int, ...] = field("[]int8 1+", default=())


class ConfigResource(Struct):
    """Part of `ListConfigResourcesResponse`."""

    resource_name: str = field("string 0+", default="")
    resource_type: int = field("int8 1+ ignorable", default=16)


class ListConfigResourcesResponse(Message, kind="response", api_key=74, versions="0-1", flexible="0+"):
    """Response of api key 74."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    config_resources: tuple[ConfigResource, ...] = field("[]ConfigResource 0+", default=())
