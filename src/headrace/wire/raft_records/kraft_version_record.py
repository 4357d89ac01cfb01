"""The schema of KRaftVersionRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class KRaftVersionRecord(Message, kind="data", versions="0", flexible="0+"):
    """Data on its own: no api key."""

    version: int = field("int16 0+", default=0)
    kraft_version: int = field("int16 0+ name=KRaftVersion", default=0)
