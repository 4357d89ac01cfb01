"""The requests and responses of UpdateRaftVoter (api key 82).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class KRaftVersionFeature(Struct):
    """Part of `UpdateRaftVoterRequest`."""

    min_supported_version: int = field("int16 0+", default=0)
    max_supported_version: int = field("int16 0+", default=0)


class Listener(Struct):
    """Part of `UpdateRaftVoterRequest`."""

    name: str = field("string 0+ key", default="")
    host: str = field("string 0+", default="")
    port: int = field("uint16 0+", default=0)


class UpdateRaftVoterRequest(Message, kind="request", api_key=82, versions="0", flexible="0+"):
    """Request of api key 82."""

    cluster_id: str | None = field("string 0+ nullable=0+", default="")
    current_leader_epoch: int = field("int32 0+", default=0)
    voter_id: int = field("int32 0+", default=0)
    voter_directory_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    listeners: tuple[Listener, ...] = field("[]Listener 0+", default=())
    kraft_version_feature: KRaftVersionFeature = field(
        "KRaftVersionFeature 0+ name=KRaftVersionFeature", default=KRaftVersionFeature()
    )


class CurrentLeader(Struct):
    """Part of `UpdateRaftVoterResponse`."""

    leader_id: int = field("int32 0+ entity=brokerId", default=-1)
    leader_epoch: int = field("int32 0+", default=-1)
    host: str = field("string 0+", default="")
    port: int = field("int32 0+", default=0)


class UpdateRaftVoterResponse(Message, kind="response", api_key=82, versions="0", flexible="0+"):
    """Response of api key 82."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    current_leader: CurrentLeader = field("CurrentLeader 0+ tag=0@0+", default=CurrentLeader())
