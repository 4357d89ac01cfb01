"""The schema of ConsumerGroupRegularExpressionValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class ConsumerGroupRegularExpressionValue(Message, kind="coordinator-value", api_key=16, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 16."""

    topics: tuple[str, ...] = field("[]string 0+", default=())
    version: int = field("int64 0+", default=0)
    timestamp: int = field("int64 0+", default=0)
