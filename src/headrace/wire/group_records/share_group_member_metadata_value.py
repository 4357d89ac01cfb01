"""The schema of ShareGroupMemberMetadataValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ShareGroupMemberMetadataValue(Message, kind="coordinator-value", api_key=10, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 10."""

    rack_id: str | None = field("string 0+ nullable=0+", default="")
    client_id: str = field("string 0+", default="")
    client_host: str = field("string 0+", default="")
    subscribed_topic_names: tuple[str, ...] = field("[]string 0+", default=())
