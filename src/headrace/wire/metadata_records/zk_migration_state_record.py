"""The schema of ZkMigrationStateRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ZkMigrationStateRecord(Message, kind="metadata", api_key=21, versions="0", flexible="0+"):
    """Metadata record of type 21."""

    zk_migration_state: int = field("int8 0+", default=0)
