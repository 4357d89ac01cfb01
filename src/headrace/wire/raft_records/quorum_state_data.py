"""The schema of QuorumStateData.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class Voter(Struct):
    """Part of `QuorumStateData`."""

    voter_id: int = field("int32 0", default=0)


class QuorumStateData(Message, kind="data", versions="0-1", flexible="0+"):
    """Data on its own: no api key."""

    cluster_id: str = field("string 0", default="")
    leader_id: int = field("int32 0+", default=-1)
    leader_epoch: int = field("int32 0+", default=-1)
    voted_id: int = field("int32 0+", default=-1)
    voted_directory_id: Uuid = field("uuid 1+", default=ZERO_UUID)
    applied_offset: int = field("int64 0", default=0)
    current_voters: tuple[Voter, ...] | None = field("[]Voter 0 nullable=0", default=())
