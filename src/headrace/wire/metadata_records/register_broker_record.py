"""The schema of RegisterBrokerRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class BrokerFeature(Struct):
    """Part of `RegisterBrokerRecord`."""

    name: str = field("string 0+ key", default="")
    min_supported_version: int = field("int16 0+", default=0)
    max_supported_version: int = field("int16 0+", default=0)


class BrokerEndpoint(Struct):
    """Part of `RegisterBrokerRecord`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)
    security_protocol: int = field("int16 0+", default=0)


class RegisterBrokerRecord(Message, kind="metadata", api_key=0, versions="0-4", flexible="0+"):
    """Metadata record of type 0."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    is_migrating_zk_broker: bool = field("bool 2+", default=False)
    incarnation_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    broker_epoch: int = field("int64 0+", default=0)
    end_points: tuple[BrokerEndpoint, ...] = field("[]BrokerEndpoint 0+", default=())
    features: tuple[BrokerFeature, ...] = field("[]BrokerFeature 0+", default=())
    rack: str | None = field("string 0+ nullable=0+", default="")
    fenced: bool = field("bool 0+", default=True)
    in_controlled_shutdown: bool = field("bool 1+", default=False)
    log_dirs: tuple[Uuid, ...] = field("[]uuid 3+ tag=0@3+", default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = field("[]uuid 4+ nullable=4+ tag=1@4+", default=None)
