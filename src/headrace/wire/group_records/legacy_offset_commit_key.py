"""The schema of LegacyOffsetCommitKey.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class LegacyOffsetCommitKey(Message, kind="coordinator-key", api_key=0, versions="0", flexible="none"):
    """Key of a coordinator's record of type 0."""

    group: str = field("string 0 name=group", default="")
    topic: str = field("string 0 name=topic", default="")
    partition: int = field("int32 0 name=partition", default=0)
