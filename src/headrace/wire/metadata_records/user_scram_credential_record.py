"""The schema of UserScramCredentialRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class UserScramCredentialRecord(Message, kind="metadata", api_key=11, versions="0", flexible="0+"):
    """Metadata record of type 11."""

    name: str = field("string 0+", default="")
    mechanism: int = field("int8 0+", default=0)
    salt: bytes = field("bytes 0+", default=b"")
    stored_key: bytes = field("bytes 0+", default=b"")
    server_key: bytes = field("bytes 0+", default=b"")
    iterations: int = field("int32 0+", default=0)
