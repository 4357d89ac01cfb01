"""The schema of StreamsGroupTargetAssignmentMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class StreamsGroupTargetAssignmentMetadataValue(
    Message, kind="coordinator-value", api_key=20, versions="0", flexible="0+"
):
    """Value of a coordinator's record of type 20."""

    assignment_epoch: int = field("int32 0+", default=0)
    assignment_timestamp: int = field("int64 0+ tag=0@0+ ignorable", default=0)
