"""Events that reach a raft node, and the effects that it orders.

The driver feeds events to `RaftNode.step` and does the effects in list order. Four effects report back with an event:

* `StoreQuorumState` (durable: write, fsync, rename, fsync directory) -> `QuorumStateStored`. A vote counts, also our own, only then.
* `FlushLog` (`log.prepare_flush()`, the job in a thread, `log.flushed(upto)`) -> `LogFlushed`. An entry counts only then (B-R14).
  At most one flush is in flight; the next one is ordered when its event comes back (group commit).
* `SendRaftRequest` -> `RaftResponseArrived` or `RaftRequestFailed`, exactly one, at the latest after `timeout_ms`.
* `FinishSnapshot` (`raft.snapshots.finish_download` in a thread) -> `SnapshotStored`.

No effect that leaves the node (`SendRaftRequest`, `AnswerRaftRequest`, `LeaderChanged`) is given out before the quorum state it may reveal
was reported stored: the machine holds it back (R4), whatever order the driver keeps.

`HighWatermarkAdvanced` means: read the batches below `to` from the log, feed the loader. It comes before `LeadershipClaimed` in
the list, so the controller becomes active with all earlier records replayed (B-C21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.peers import Destination as Destination
from headrace.core.peers import SendFailure as SendFailure
from headrace.core.values import value_class

if TYPE_CHECKING:
    from headrace.core.error_code import ErrorCode
    from headrace.core.ids import Uuid
    from headrace.core.offsets import OffsetAndEpoch
    from headrace.raft.voters import VoterEndPoint
    from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
    from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
    from headrace.wire.messages.fetch import FetchRequest, FetchResponse
    from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
    from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
    from headrace.wire.messages.vote import VoteRequest, VoteResponse

    RaftRequest = (
        VoteRequest
        | BeginQuorumEpochRequest
        | EndQuorumEpochRequest
        | FetchRequest
        | FetchSnapshotRequest
        | DescribeQuorumRequest
        | AddRaftVoterRequest
        | RemoveRaftVoterRequest
        | UpdateRaftVoterRequest
    )
    OutboundRequest = (
        VoteRequest
        | BeginQuorumEpochRequest
        | EndQuorumEpochRequest
        | FetchRequest
        | FetchSnapshotRequest
        | ApiVersionsRequest
        | UpdateRaftVoterRequest
        | AddRaftVoterRequest
        | RemoveRaftVoterRequest
    )
    RaftResponse = (
        VoteResponse
        | BeginQuorumEpochResponse
        | EndQuorumEpochResponse
        | FetchResponse
        | FetchSnapshotResponse
        | DescribeQuorumResponse
        | AddRaftVoterResponse
        | RemoveRaftVoterResponse
        | UpdateRaftVoterResponse
    )
    InboundResponse = (
        VoteResponse
        | BeginQuorumEpochResponse
        | EndQuorumEpochResponse
        | FetchResponse
        | FetchSnapshotResponse
        | ApiVersionsResponse
        | UpdateRaftVoterResponse
        | AddRaftVoterResponse
        | RemoveRaftVoterResponse
    )


@value_class
class QuorumState:
    """The election state that must survive a crash (B-R03). -1 = none; `voted_directory_id` only with kraft.version 1."""

    leader_epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid | None = None


# Events


@value_class
class NodeStarted:
    """The log is recovered and the stored quorum state was given to the constructor. Once, first."""

    now_ms: int


@value_class
class TimeAdvanced:
    """A deadline (`RaftNode.next_deadline_ms`) may have passed. Monotonic milliseconds."""

    now_ms: int


@value_class
class QuorumStateStored:
    """The state of a `StoreQuorumState` is on disk."""

    state: QuorumState
    now_ms: int


@value_class
class LogFlushed:
    """Everything below `upto` of the metadata log is on disk (exclusive)."""

    upto: int
    now_ms: int


@value_class
class RecordsOffered:
    """The active controller wants these records in the log, all in one batch, the first at `base_offset`, in `epoch`.

    Each element is one framed metadata record (B-C00). When this node no longer leads `epoch` nothing is appended: the
    controller is told by `LeadershipLost`.
    """

    records: tuple[bytes, ...]
    base_offset: int
    epoch: int
    now_ms: int


@value_class
class RaftRequestArrived:
    """A peer, an observer or a tool asks; exactly one `AnswerRaftRequest` with the same `token` follows, now or later.

    For Fetch on `__cluster_metadata` only; fetches of other topics are the broker's. `client_host` is for messages only.
    """

    token: int
    request: RaftRequest
    api_version: int
    listener: str
    now_ms: int


@value_class
class RaftResponseArrived:
    """The answer to `SendRaftRequest` with this `correlation`. An answer that came too late may be fed: it changes nothing."""

    correlation: int
    response: InboundResponse
    now_ms: int


@value_class
class RaftRequestFailed:
    """There will be no answer to `SendRaftRequest` with this `correlation`."""

    correlation: int
    failure: SendFailure
    now_ms: int


@value_class
class LinkLost:
    """A node that was connected is gone for sure: its connection was reset or closed, and a fresh connect was refused.

    If it is the leader, a voter begins a pre-vote at once in place of waiting for the fetch timeout.
    """

    node_id: int
    now_ms: int


@value_class
class SnapshotStored:
    """`FinishSnapshot` was done. `is_sound` False: the bytes are no snapshot; it is dropped and fetched anew."""

    snapshot_id: OffsetAndEpoch
    is_sound: bool
    now_ms: int


@value_class
class KRaftVersionRequested:
    """UpdateFeatures asks the active controller for this level of kraft.version; one `AnswerKRaftVersion` comes from the same step."""

    token: int
    level: int
    validate_only: bool
    now_ms: int


@value_class
class SnapshotCreated:
    """A snapshot of the image is whole on disk: the log below `end_offset` may go when the limits say so."""

    end_offset: int
    epoch: int
    now_ms: int


@value_class
class ShutdownBegan:
    """The node stops: give up leadership."""

    now_ms: int


@value_class
class ResignRequested:
    """The controller met a fault in `epoch` and may not lead any more."""

    epoch: int
    now_ms: int


RaftEvent = (
    NodeStarted
    | TimeAdvanced
    | QuorumStateStored
    | LogFlushed
    | RecordsOffered
    | RaftRequestArrived
    | RaftResponseArrived
    | RaftRequestFailed
    | LinkLost
    | SnapshotCreated
    | SnapshotStored
    | KRaftVersionRequested
    | ShutdownBegan
    | ResignRequested
)


# Effects


@value_class
class StoreQuorumState:
    """Replace the file `quorum-state` durably, then feed `QuorumStateStored`. Several may be under way: keep their order.

    `kraft_version` chooses the file's version, `voter_ids` are written into version 0.
    """

    state: QuorumState
    kraft_version: int = 0
    voter_ids: tuple[int, ...] = ()
    durable: bool = True


@value_class
class FlushLog:
    """Flush the metadata log off the loop, then feed `LogFlushed`."""


@value_class
class HighWatermarkAdvanced:
    """Records below `to` are committed: give them to the metadata loader."""

    to: int


@value_class
class LeadershipClaimed:
    """This node leads `epoch` and everything before it is committed and was handed over; the next record gets `next_offset`."""

    epoch: int
    next_offset: int


@value_class
class OffsetsTaken:
    """While leading `epoch`, raft wrote records of its own (voters, kraft.version): the controller's next record gets `next_offset`.

    It comes first in the list, so the controller knows before it decides anything else.
    """

    epoch: int
    next_offset: int


@value_class
class LeadershipLost:
    """This node no longer leads `epoch`; `leader_id` is the new leader or -1."""

    epoch: int
    leader_id: int


@value_class
class LeaderChanged:
    """Who leads as far as this node knows; `leader_id` -1 = nobody. For `Broker.forward`, the link watch and metrics.

    `end_points` are the leader's controller listeners, none when they are not known; `to` is the one that this node asks, None also when
    the leader is this node.
    """

    leader_id: int
    epoch: int
    to: Destination | None = None
    end_points: tuple[VoterEndPoint, ...] = ()


@value_class
class AnswerRaftRequest:
    """The answer to a `RaftRequestArrived`."""

    token: int
    response: RaftResponse


@value_class
class SendRaftRequest:
    """Send `request` in the highest version that both ends know; fields that a version lacks are left out when it allows that."""

    correlation: int
    to: Destination
    request: OutboundRequest
    timeout_ms: int


@value_class
class FinishSnapshot:
    """All bytes of a fetched snapshot are in its part: check it, sync it, give it its name; then feed `SnapshotStored`."""

    snapshot_id: OffsetAndEpoch


@value_class
class LoadSnapshot:
    """The log now begins at this fetched snapshot's end: replace the image by its content. Never while leading (R16)."""

    snapshot_id: OffsetAndEpoch


@value_class
class AnswerKRaftVersion:
    """The answer to `KRaftVersionRequested`; with NONE, the control records were appended unless it was only validated."""

    token: int
    error: ErrorCode
    message: str | None = None


RaftEffect = (
    StoreQuorumState
    | FlushLog
    | HighWatermarkAdvanced
    | LeadershipClaimed
    | OffsetsTaken
    | LeadershipLost
    | LeaderChanged
    | AnswerRaftRequest
    | SendRaftRequest
    | FinishSnapshot
    | LoadSnapshot
    | AnswerKRaftVersion
)
