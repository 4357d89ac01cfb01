"""The schema of RemoveAccessControlEntryRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class RemoveAccessControlEntryRecord(Message, kind="metadata", api_key=19, versions="0", flexible="0+"):
    """Metadata record of type 19."""

    id: Uuid = field("uuid 0+", default=ZERO_UUID)
