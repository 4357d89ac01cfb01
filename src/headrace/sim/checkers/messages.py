"""What a message of the quorum reveals about its sender, and for whom it was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from headrace.wire.messages.describe_quorum import DescribeQuorumResponse
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from headrace.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from collections.abc import Callable


class Revealed(NamedTuple):
    """What a message says about its sender's election state. -1 = nothing.

    `leader_id` leads `epoch`; `candidate` (id, directory id) got the sender's vote in `epoch`.
    """

    epoch: int = -1
    leader_id: int = -1
    candidate: tuple[int, Uuid] | None = None


NOTHING = Revealed()


def _vote_request(sender: int, message: Any, asked: Any) -> Revealed:
    part = message.topics[0].partitions[0]
    if part.pre_vote:
        return Revealed(epoch=part.replica_epoch)
    return Revealed(epoch=part.replica_epoch, candidate=(part.replica_id, part.replica_directory_id))


def _vote_response(sender: int, message: Any, asked: Any) -> Revealed:
    if not message.topics or not message.topics[0].partitions:
        return NOTHING
    part = message.topics[0].partitions[0]
    candidate = None
    if part.vote_granted and isinstance(asked, VoteRequest):
        wanted = asked.topics[0].partitions[0]
        if not wanted.pre_vote:
            candidate = (wanted.replica_id, wanted.replica_directory_id)
    return Revealed(epoch=part.leader_epoch, leader_id=part.leader_id, candidate=candidate)


def _begin_or_end(sender: int, message: Any, asked: Any) -> Revealed:
    part = message.topics[0].partitions[0]
    return Revealed(epoch=part.leader_epoch, leader_id=part.leader_id)


def _plain_response(sender: int, message: Any, asked: Any) -> Revealed:
    if not message.topics or not message.topics[0].partitions:
        return NOTHING
    part = message.topics[0].partitions[0]
    return Revealed(epoch=part.leader_epoch, leader_id=part.leader_id)


def _fetch_request(sender: int, message: Any, asked: Any) -> Revealed:
    part = message.topics[0].partitions[0] if message.topics and message.topics[0].partitions else None
    return NOTHING if part is None else Revealed(epoch=part.current_leader_epoch)


def _fetch_response(sender: int, message: Any, asked: Any) -> Revealed:
    if not message.responses or not message.responses[0].partitions:
        return NOTHING
    leader = message.responses[0].partitions[0].current_leader
    return Revealed(epoch=leader.leader_epoch, leader_id=leader.leader_id)


def _snapshot_response(sender: int, message: Any, asked: Any) -> Revealed:
    if not message.topics or not message.topics[0].partitions:
        return NOTHING
    leader = message.topics[0].partitions[0].current_leader
    return Revealed(epoch=leader.leader_epoch, leader_id=leader.leader_id)


_TABLE: dict[type, Callable[[int, Any, Any], Revealed]] = {
    VoteRequest: _vote_request,
    VoteResponse: _vote_response,
    BeginQuorumEpochRequest: _begin_or_end,
    BeginQuorumEpochResponse: _plain_response,
    EndQuorumEpochRequest: _begin_or_end,
    EndQuorumEpochResponse: _plain_response,
    FetchRequest: _fetch_request,
    FetchResponse: _fetch_response,
    FetchSnapshotRequest: _fetch_request,
    FetchSnapshotResponse: _snapshot_response,
    DescribeQuorumResponse: _plain_response,
}


def revealed(sender: int, message: object, asked: object = None) -> Revealed:
    """What `message` reveals; `asked` is the request it answers, None for a request."""
    read = _TABLE.get(type(message))
    return NOTHING if read is None else read(sender, message, asked)


class MeantFor(NamedTuple):
    """Whom a request names as its receiver: None, -1 and the zero uuid name nobody in particular."""

    cluster_id: str | None = None
    node_id: int = -1
    directory_id: Uuid = ZERO_UUID


def meant_for(message: object) -> MeantFor | None:
    """Whom a request of the quorum names; None for anything else."""
    match message:
        case VoteRequest():
            return MeantFor(message.cluster_id, message.voter_id, message.topics[0].partitions[0].voter_directory_id)
        case BeginQuorumEpochRequest():
            return MeantFor(message.cluster_id, message.voter_id, message.topics[0].partitions[0].voter_directory_id)
        case EndQuorumEpochRequest() | FetchRequest() | FetchSnapshotRequest():
            return MeantFor(message.cluster_id)
        case _:
            return None
