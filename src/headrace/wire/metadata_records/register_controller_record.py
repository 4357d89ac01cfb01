"""The schema of RegisterControllerRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class ControllerFeature(Struct):
    """Part of `RegisterControllerRecord`."""

    name: str = field("string 0+ key", default="")
    min_supported_version: int = field("int16 0+", default=0)
    max_supported_version: int = field("int16 0+", default=0)


class ControllerEndpoint(Struct):
    """Part of `RegisterControllerRecord`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)
    security_protocol: int = field("int16 0+", default=0)


class RegisterControllerRecord(Message, kind="metadata", api_key=27, versions="0", flexible="0+"):
    """Metadata record of type 27."""

    controller_id: int = field("int32 0+", default=0)
    incarnation_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    zk_migration_ready: bool = field("bool 0+", default=False)
    end_points: tuple[ControllerEndpoint, ...] = field("[]ControllerEndpoint 0+", default=())
    features: tuple[ControllerFeature, ...] = field("[]ControllerFeature 0+", default=())
