"""The schema of ConfigRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ConfigRecord(Message, kind="metadata", api_key=4, versions="0", flexible="0+"):
    """Metadata record of type 4."""

    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    name: str = field("string 0+", default="")
    value: str | None = field("string 0+ nullable=0+", default="")
