"""The schema of LeaderChangeMessage.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class Voter(Struct):
    """Part of `LeaderChangeMessage`."""

    voter_id: int = field("int32 0+", default=0)
    voter_directory_id: Uuid = field("uuid 1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, kind="data", versions="0-1", flexible="0+"):
    """Data on its own: no api key."""

    version: int = field("int16 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    voters: tuple[Voter, ...] = field("[]Voter 0+", default=())
    granting_voters: tuple[Voter, ...] = field("[]Voter 0+", default=())
