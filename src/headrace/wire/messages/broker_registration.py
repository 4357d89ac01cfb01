"""The requests and responses of BrokerRegistration (api key 62).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class Feature(Struct):
    """Part of `BrokerRegistrationRequest`."""

    name: str = field("string 0+ key", default="")
    min_supported_version: int = field("int16 0+", default=0)
    max_supported_version: int = field("int16 0+", default=0)


class Listener(Struct):
    """Part of `BrokerRegistrationRequest`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)
    security_protocol: int = field("int16 0+", default=0)


class BrokerRegistrationRequest(Message, kind="request", api_key=62, versions="0-4", flexible="0+"):
    """Request of api key 62."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    cluster_id: str = field("string 0+", default="")
    incarnation_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    listeners: tuple[Listener, ...] = field("[]Listener 0+", default=())
    features: tuple[Feature, ...] = field("[]Feature 0+", default=())
    rack: str | None = field("string 0+ nullable=0+", default="")
    is_migrating_zk_broker: bool = field("bool 1+", default=False)
    log_dirs: tuple[Uuid, ...] = field("[]uuid 2+ ignorable", default=())
    previous_broker_epoch: int = field("int64 3+ ignorable", default=-1)


class BrokerRegistrationResponse(Message, kind="response", api_key=62, versions="0-4", flexible="0+"):
    """Response of api key 62."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    broker_epoch: int = field("int64 0+", default=-1)
