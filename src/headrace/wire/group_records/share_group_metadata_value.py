"""The schema of ShareGroupMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ShareGroupMetadataValue(Message, kind="coordinator-value", api_key=11, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 11."""

    epoch: int = field("int32 0+", default=0)
    metadata_hash: int = field("int64 0+", default=0)
