"""The schema of RemoveDelegationTokenRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class RemoveDelegationTokenRecord(Message, kind="metadata", api_key=26, versions="0", flexible="0+"):
    """Metadata record of type 26."""

    token_id: str = field("string 0+", default="")
