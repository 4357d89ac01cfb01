"""The schema of DefaultPrincipalData.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class DefaultPrincipalData(Message, kind="data", versions="0", flexible="0+"):
    """Data on its own: no api key."""

    type: str = field("string 0+", default="")
    name: str = field("string 0+", default="")
    token_authenticated: bool = field("bool 0+", default=False)
