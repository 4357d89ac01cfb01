"""The schema of SnapshotHeaderRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class SnapshotHeaderRecord(Message, kind="data", versions="0", flexible="0+"):
    """Data on its own: no api key."""

    version: int = field("int16 0+", default=0)
    last_contained_log_timestamp: int = field("int64 0+", default=0)
