"""The requests and responses of AlterClientQuotas (api key 49).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class OpData(Struct):
    """Part of `AlterClientQuotasRequest`."""

    key: str = field("string 0+", default="")
    value: float = field("float64 0+", default=0.0)
    remove: bool = field("bool 0+", default=False)


class RequestEntityData(Struct):
    """Part of `AlterClientQuotasRequest`."""

    entity_type: str = field("string 0+", default="")
    entity_name: str | None = field("string 0+ nullable=0+", default="")


class RequestEntryData(Struct):
    """Part of `AlterClientQuotasRequest`."""

    entity: tuple[RequestEntityData, ...] = field("[]RequestEntityData 0+", default=())
    ops: tuple[OpData, ...] = field("[]OpData 0+", default=())


class AlterClientQuotasRequest(Message, kind="request", api_key=49, versions="0-1", flexible="1+"):
    """Request of api key 49."""

    entries: tuple[RequestEntryData, ...] = field("[]RequestEntryData 0+", default=())
    validate_only: bool = field("bool 0+", default=False)


class ResponseEntityData(Struct):
    """Part of `AlterClientQuotasResponse`."""

    entity_type: str = field("string 0+", default="")
    entity_name: str | None = field("string 0+ nullable=0+", default="")


class ResponseEntryData(Struct):
    """Part of `AlterClientQuotasResponse`."""

    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    entity: tuple[ResponseEntityData, ...] = field("[]ResponseEntityData 0+", default=())


class AlterClientQuotasResponse(Message, kind="response", api_key=49, versions="0-1", flexible="1+"):
    """Response of api key 49."""

    throttle_time_ms: int = field("int32 0+", default=0)
    entries: tuple[ResponseEntryData, ...] = field("[]ResponseEntryData 0+", default=())
