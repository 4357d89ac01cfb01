"""The schema of FeatureLevelRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class FeatureLevelRecord(Message, kind="metadata", api_key=12, versions="0", flexible="0+"):
    """Metadata record of type 12."""

    name: str = field("string 0+", default="")
    feature_level: int = field("int16 0+", default=0)
