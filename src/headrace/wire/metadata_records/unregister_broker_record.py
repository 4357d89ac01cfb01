"""The schema of UnregisterBrokerRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class UnregisterBrokerRecord(Message, kind="metadata", api_key=1, versions="0", flexible="0+"):
    """Metadata record of type 1."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 0+", default=0)
