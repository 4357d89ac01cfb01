"""The voters of the metadata quorum.

Static voters (`controller.quorum.voters`, KIP-595) have ids and addresses; dynamic ones (kraft.version 1, KIP-853) stand in a
VotersRecord of the log and are told apart by directory id too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.values import value_class
from headrace.wire.codec import decode, encode
from headrace.wire.raft_records.kraft_version_record import KRaftVersionRecord
from headrace.wire.raft_records.voters_record import Endpoint, KRaftVersionFeature, VotersRecord
from headrace.wire.raft_records.voters_record import Voter as VoterRecord

SUPPORTED_KRAFT_VERSION = (0, 1)
"""Lowest and highest level of kraft.version that this node can work with."""


class VoterEndPoint(NamedTuple):
    """Where a voter listens, under one listener name."""

    name: str
    host: str
    port: int


@value_class
class Voter:
    """One voter. `directory_id` is the zero uuid for a static voter: any directory of that node counts."""

    voter_id: int
    directory_id: Uuid = ZERO_UUID
    end_points: tuple[VoterEndPoint, ...] = ()
    min_kraft_version: int = SUPPORTED_KRAFT_VERSION[0]
    max_kraft_version: int = SUPPORTED_KRAFT_VERSION[1]

    def is_replica(self, voter_id: int, directory_id: Uuid) -> bool:
        """Whether that replica is this voter: any directory of the node for a static voter, else the very one (KIP-853)."""
        return voter_id == self.voter_id and self.directory_id in (ZERO_UUID, directory_id)

    def supports(self, level: int) -> bool:
        """Whether the voter can work with this level of kraft.version."""
        return self.min_kraft_version <= level <= self.max_kraft_version


def find_end_point(end_points: Sequence[VoterEndPoint], listener: str) -> VoterEndPoint | None:
    """The end point of that listener, else the first, else None."""
    for each in end_points:
        if each.name == listener:
            return each
    return end_points[0] if end_points else None


@value_class
class VoterSet:
    """All voters by ascending id, and whether they are written in the log (`kraft_version` 1)."""

    voters: tuple[Voter, ...] = field(default=())
    kraft_version: int = 0

    @property
    def ids(self) -> tuple[int, ...]:
        """The voters' ids, ascending."""
        return tuple(voter.voter_id for voter in self.voters)

    def find(self, voter_id: int) -> Voter | None:
        """The voter with this id, or None."""
        return next((voter for voter in self.voters if voter.voter_id == voter_id), None)

    def is_voter(self, voter_id: int, directory_id: Uuid) -> bool:
        """Whether this very replica is a voter (see `Voter.is_replica`)."""
        voter = self.find(voter_id)
        return voter is not None and voter.is_replica(voter_id, directory_id)

    def with_voter(self, voter: Voter) -> VoterSet:
        """The same with `voter` added, or in place of the one with its id."""
        others = [each for each in self.voters if each.voter_id != voter.voter_id]
        voters = tuple(sorted([*others, voter], key=lambda each: each.voter_id))
        return VoterSet(voters=voters, kraft_version=self.kraft_version)

    def without(self, voter_id: int) -> VoterSet:
        """The same without that voter."""
        voters = tuple(each for each in self.voters if each.voter_id != voter_id)
        return VoterSet(voters=voters, kraft_version=self.kraft_version)

    def differs_by_one(self, other: VoterSet) -> bool:
        """At most one (id, directory id) came and at most one went, so that majorities of both meet (R17)."""
        ours = {(each.voter_id, each.directory_id) for each in self.voters}
        theirs = {(each.voter_id, each.directory_id) for each in other.voters}
        return len(ours - theirs) <= 1 and len(theirs - ours) <= 1 and len(ours ^ theirs) <= 1


def static_voters(addresses: dict[int, tuple[str, int]], listener: str) -> VoterSet:
    """The voters of `controller.quorum.voters`: id -> (host, port)."""
    return VoterSet(
        voters=tuple(
            Voter(voter_id=voter_id, end_points=(VoterEndPoint(listener, *addresses[voter_id]),))
            for voter_id in sorted(addresses)
        )
    )


def encode_voters(voters: VoterSet) -> bytes:
    """The value of the KRAFT_VOTERS control record."""
    record = VotersRecord(
        version=0,
        voters=tuple(
            VoterRecord(
                voter_id=voter.voter_id,
                voter_directory_id=voter.directory_id,
                endpoints=tuple(Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.end_points),
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                ),
            )
            for voter in voters.voters
        ),
    )
    return encode(record, 0)


def decode_voters(value: bytes) -> VoterSet:
    """The voters of a KRAFT_VOTERS control record. Raises DecodeError."""
    record = decode(VotersRecord, value, 0)
    voters = [
        Voter(
            voter_id=each.voter_id,
            directory_id=each.voter_directory_id,
            end_points=tuple(VoterEndPoint(e.name, e.host, e.port) for e in each.endpoints),
            min_kraft_version=each.kraft_version_feature.min_supported_version,
            max_kraft_version=each.kraft_version_feature.max_supported_version,
        )
        for each in record.voters
    ]
    return VoterSet(voters=tuple(sorted(voters, key=lambda voter: voter.voter_id)), kraft_version=1)


def encode_kraft_version(level: int) -> bytes:
    """The value of the KRAFT_VERSION control record."""
    return encode(KRaftVersionRecord(version=0, kraft_version=level), 0)


def decode_kraft_version(value: bytes) -> int:
    """The level in a KRAFT_VERSION control record. Raises DecodeError."""
    return decode(KRaftVersionRecord, value, 0).kraft_version
