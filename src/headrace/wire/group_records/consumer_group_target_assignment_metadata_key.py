"""The schema of ConsumerGroupTargetAssignmentMetadataKey.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ConsumerGroupTargetAssignmentMetadataKey(
    Message, kind="coordinator-key", api_key=6, versions="0", flexible="none"
):
    """Key of a coordinator's record of type 6."""

    group_id: str = field("string 0", default="")
