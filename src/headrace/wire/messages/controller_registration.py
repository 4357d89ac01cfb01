"""The requests and responses of ControllerRegistration (api key 70).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class Feature(Struct):
    """Part of `ControllerRegistrationRequest`."""

    name: str = field("string 0+ key", default="")
    min_supported_version: int = field("int16 0+", default=0)
    max_supported_version: int = field("int16 0+", default=0)


class Listener(Struct):
    """Part of `ControllerRegistrationRequest`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)
    security_protocol: int = field("int16 0+", default=0)


class ControllerRegistrationRequest(Message, kind="request", api_key=70, versions="0", flexible="0+"):
    """Request of api key 70."""

    controller_id: int = field("int32 0+", default=0)
    incarnation_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    zk_migration_ready: bool = field("bool 0+", default=False)
    listeners: tuple[Listener, ...] = field("[]Listener 0+", default=())
    features: tuple[Feature, ...] = field("[]Feature 0+", default=())


class ControllerRegistrationResponse(Message, kind="response", api_key=70, versions="0", flexible="0+"):
    """Response of api key 70."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
