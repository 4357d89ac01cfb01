"""The context of a request: who asks, with what, and when."""

from __future__ import annotations

from headrace.core.values import value_class

ANONYMOUS = "User:ANONYMOUS"


@value_class
class RequestContext:
    """What a handler may know about a request beside its body.

    `client_host` is the peer's address as text, without a leading slash. `now_ms` is the broker's clock when the request was read.
    `listener` is the listener's name as configured. `is_controller_listener` tells the controller's endpoint from a broker's.
    `is_forwarded` is true when another node sent it on in an Envelope, `is_internal` when this process itself asks.
    `forwarded_by` is the broker that sent it on, as far as it can be told.
    """

    api_key: int
    api_version: int
    correlation_id: int = 0
    client_id: str | None = None
    principal: str = ANONYMOUS
    client_host: str = "127.0.0.1"
    listener: str = "PLAINTEXT"
    connection_id: int = 0
    now_ms: int = 0
    is_controller_listener: bool = False
    is_forwarded: bool = False
    is_internal: bool = False
    forwarded_by: int = -1
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
