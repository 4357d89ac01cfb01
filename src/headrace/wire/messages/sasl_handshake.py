"""The requests and responses of SaslHandshake (api key 17).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, field


class SaslHandshakeRequest(Message, kind="request", api_key=17, versions="0-1", flexible="none"):
    """Request of api key 17."""

    mechanism: str = field("string 0+", default="")


class SaslHandshakeResponse(Message, kind="response", api_key=17, versions="0-1", flexible="none"):
    """Response of api key 17."""

    error_code: int = field("int16 0+", default=0)
    mechanisms: tuple[str, ...] = field("[]string 0+", default=())
