"""The schema of DelegationTokenRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class DelegationTokenRecord(Message, kind="metadata", api_key=10, versions="0", flexible="0+"):
    """Metadata record of type 10."""

    owner: str = field("string 0+", default="")
    requester: str = field("string 0+", default="")
    renewers: tuple[str, ...] = field("[]string 0+", default=())
    issue_timestamp: int = field("int64 0+", default=0)
    max_timestamp: int = field("int64 0+", default=0)
    expiration_timestamp: int = field("int64 0+", default=0)
    token_id: str = field("string 0+", default="")
