"""The schema of ConsumerGroupTargetAssignmentMemberKey.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ConsumerGroupTargetAssignmentMemberKey(Message, kind="coordinator-key", api_key=7, versions="0", flexible="none"):
    """Key of a coordinator's record of type 7."""

    group_id: str = field("string 0", default="")
    member_id: str = field("string 0", default="")
