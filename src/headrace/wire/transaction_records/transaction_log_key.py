"""The schema of TransactionLogKey.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class TransactionLogKey(Message, kind="coordinator-key", api_key=0, versions="0", flexible="none"):
    """Key of a coordinator's record of type 0."""

    transactional_id: str = field("string 0", default="")
