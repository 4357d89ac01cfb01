"""The requests and responses of CreateAcls (api key 30).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class AclCreation(Struct):
    """Part of `CreateAclsRequest`."""

    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    resource_pattern_type: int = field("int8 1+", default=3)
    principal: str = field("string 0+", default="")
    host: str = field("string 0+", default="")
    operation: int = field("int8 0+", default=0)
    permission_type: int = field("int8 0+", default=0)


class CreateAclsRequest(Message, kind="request", api_key=30, versions="1-3", flexible="2+"):
    """Request of api key 30."""

    creations: tuple[AclCreation, ...] = field("[]AclCreation 0+", default=())


class AclCreationResult(Struct):
    """Part of `CreateAclsResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")


class CreateAclsResponse(Message, kind="response", api_key=30, versions="1-3", flexible="2+"):
    """Response of api key 30."""

    throttle_time_ms: int = field("int32 0+", default=0)
    results: tuple[AclCreationResult, ...] = field("[]AclCreationResult 0+", default=())
