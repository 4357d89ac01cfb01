"""The schema of ClientQuotaRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class EntityData(Struct):
    """Part of `ClientQuotaRecord`."""

    entity_type: str = field("string 0+", default="")
    entity_name: str | None = field("string 0+ nullable=0+", default="")


class ClientQuotaRecord(Message, kind="metadata", api_key=14, versions="0", flexible="0+"):
    """Metadata record of type 14."""

    entity: tuple[EntityData, ...] = field("[]EntityData 0+", default=())
    key: str = field("string 0+", default="")
    value: float = field("float64 0+", default=0.0)
    remove: bool = field("bool 0+", default=False)
