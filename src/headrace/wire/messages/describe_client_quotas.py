"""The requests and responses of DescribeClientQuotas (api key 48).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ComponentData(Struct):
    """Part of `DescribeClientQuotasRequest`."""

    entity_type: str = field("string 0+", default="")
    match_type: int = field("int8 0+", default=0)
    match: str | None = field("string 0+ nullable=0+", default="")


class DescribeClientQuotasRequest(Message, kind="request", api_key=48, versions="0-1", flexible="1+"):
    """Request of api key 48."""

    components: tuple[ComponentData, ...] = field("[]ComponentData 0+", default=())
    strict: bool = field("bool 0+", default=False)


class ValueData(Struct):
    """Part of `DescribeClientQuotasResponse`."""

    key: str = field("string 0+", default="")
    value: float = field("float64 0+", default=0.0)


class EntityData(Struct):
    """Part of `DescribeClientQuotasResponse`."""

    entity_type: str = field("string 0+", default="")
    entity_name: str | None = field("string 0+ nullable=0+", default="")


class EntryData(Struct):
    """Part of `DescribeClientQuotasResponse`."""

    entity: tuple[EntityData, ...] = field("[]EntityData 0+", default=())
    values: tuple[ValueData, ...] = field("[]ValueData 0+", default=())


class DescribeClientQuotasResponse(Message, kind="response", api_key=48, versions="0-1", flexible="1+"):
    """Response of api key 48."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    entries: tuple[EntryData, ...] | None = field("[]EntryData 0+ nullable=0+", default=())
