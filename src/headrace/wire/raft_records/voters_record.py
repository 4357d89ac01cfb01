"""The schema of VotersRecord.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class KRaftVersionFeature(Struct):
    """Part of `VotersRecord`."""

    min_supported_version: int = field("int16 0+", default=0)
    max_supported_version: int = field("int16 0+", default=0)


class Endpoint(Struct):
    """Part of `VotersRecord`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class Voter(Struct):
    """Part of `VotersRecord`."""

    voter_id: int = field("int32 0+ entity=brokerId", default=0)
    voter_directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    endpoints: tuple[Endpoint, ...] = field("[]Endpoint 0+", default=())
    kraft_version_feature: KRaftVersionFeature = field(
        "KRaftVersionFeature 0+ name=KRaftVersionFeature", default=KRaftVersionFeature()
    )


class VotersRecord(Message, kind="data", versions="0", flexible="0+"):
    """Data on its own: no api key."""

    version: int = field("int16 0+", default=0)
    voters: tuple[Voter, ...] = field("[]Voter 0+", default=())
