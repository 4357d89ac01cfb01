"""The schema of AccessControlEntryRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class AccessControlEntryRecord(Message, kind="metadata", api_key=18, versions="0", flexible="0+"):
    """Metadata record of type 18."""

    id: Uuid = field("uuid 0+", default=ZERO_UUID)
    resource_type: int = field("int8 0+", default=0)
    resource_name: str = field("string 0+", default="")
    pattern_type: int = field("int8 0+", default=0)
    principal: str = field("string 0+", default="")
    host: str = field("string 0+", default="")
    operation: int = field("int8 0+", default=0)
    permission_type: int = field("int8 0+", default=0)
