"""The schema of BrokerRegistrationChangeRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import Uuid
from headrace.wire.schema import Message, field


class BrokerRegistrationChangeRecord(Message, kind="metadata", api_key=17, versions="0-3", flexible="0+"):
    """Metadata record of type 17."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 0+", default=0)
    fenced: int = field("int8 0+ tag=0@0+", default=0)
    in_controlled_shutdown: int = field("int8 1+ tag=1@1+", default=0)
    log_dirs: tuple[Uuid, ...] = field("[]uuid 2+ tag=2@2+", default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = field("[]uuid 3+ nullable=3+ tag=3@3+", default=None)
