"""The schema of ShareUpdateKey.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, field


class ShareUpdateKey(Message, kind="coordinator-key", api_key=1, versions="0", flexible="none"):
    """Key of a coordinator's record of type 1."""

    group_id: str = field("string 0", default="")
    topic_id: Uuid = field("uuid 0", default=ZERO_UUID)
    partition: int = field("int32 0", default=0)
