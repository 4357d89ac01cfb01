"""The schema of LegacyOffsetCommitValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class LegacyOffsetCommitValue(Message, kind="coordinator-value", api_key=0, versions="0", flexible="none"):
    """Value of a coordinator's record of type 0."""

    offset: int = field("int64 0 name=offset", default=0)
    metadata: str = field("string 0 name=metadata", default="")
    commit_timestamp: int = field("int64 0 name=commitTimestamp", default=0)
