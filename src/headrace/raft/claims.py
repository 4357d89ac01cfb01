"""May a request be heeded that says in which epoch its sender is?

A later epoch than its own moves a node there, so one packet with the last epoch that 32 bits can say would leave no epoch for another election.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from headrace.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from headrace.raft.events import RaftResponse

MOST_EPOCH = 1 << 30
"""No quorum gets there by elections; as many are left beyond it."""

_CLAIMS: dict[type[Any], tuple[str, Callable[..., RaftResponse]]] = {
    FetchRequest: ("current_leader_epoch", FetchResponse),
    VoteRequest: ("replica_epoch", VoteResponse),
    BeginQuorumEpochRequest: ("leader_epoch", BeginQuorumEpochResponse),
    EndQuorumEpochRequest: ("leader_epoch", EndQuorumEpochResponse),
    FetchSnapshotRequest: ("current_leader_epoch", FetchSnapshotResponse),
    UpdateRaftVoterRequest: ("current_leader_epoch", UpdateRaftVoterResponse),
}


def refuse_hopeless_epoch(request: object) -> RaftResponse | None:
    """INVALID_REQUEST for an epoch above `MOST_EPOCH`; None for every other request."""
    claim = _CLAIMS.get(type(request))
    if claim is None:
        return None
    name, answer = claim
    topics: tuple[Any, ...] = getattr(request, "topics", ())
    claimed = [getattr(part, name) for topic in topics for part in topic.partitions]
    if isinstance(request, UpdateRaftVoterRequest):
        claimed = [request.current_leader_epoch]
    if max(claimed, default=0) <= MOST_EPOCH:
        return None
    return answer(error_code=ErrorCode.INVALID_REQUEST)
