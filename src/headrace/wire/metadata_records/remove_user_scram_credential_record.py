"""The schema of RemoveUserScramCredentialRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class RemoveUserScramCredentialRecord(Message, kind="metadata", api_key=22, versions="0", flexible="0+"):
    """Metadata record of type 22."""

    name: str = field("string 0+", default="")
    mechanism: int = field("int8 0+", default=0)
