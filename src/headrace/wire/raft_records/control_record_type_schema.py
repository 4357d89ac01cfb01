"""The schema of ControlRecordTypeSchema.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ControlRecordTypeSchema(Message, kind="data", versions="0", flexible="none"):
    """Data on its own: no api key."""

    type: int = field("int16 0+", default=0)
