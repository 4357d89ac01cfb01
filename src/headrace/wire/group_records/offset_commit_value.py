"""The schema of OffsetCommitValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class OffsetCommitValue(Message, kind="coordinator-value", api_key=1, versions="0-4", flexible="4+"):
    """Value of a coordinator's record of type 1."""

    offset: int = field("int64 0+ name=offset", default=0)
    leader_epoch: int = field("int32 3+ ignorable name=leaderEpoch", default=-1)
    metadata: str = field("string 0+ name=metadata", default="")
    commit_timestamp: int = field("int64 0+ name=commitTimestamp", default=0)
    expire_timestamp: int = field("int64 1 ignorable name=expireTimestamp", default=-1)
    topic_id: Uuid = field("uuid 4+ tag=0@4+ ignorable name=topicId", default=ZERO_UUID)
