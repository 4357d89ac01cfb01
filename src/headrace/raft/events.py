"""What happens to a raft node, and what does it order?

The driver feeds events to `RaftNode.step` and does the effects in list order. Two effects report back with an event:

* `StoreQuorumState` (durable: write, fsync, rename, fsync directory) -> `QuorumStateStored`. A vote counts, also our own, only then.
* `FlushLog` (`log.prepare_flush()`, the job in a thread, `log.flushed(upto)`) -> `LogFlushed`. An entry counts only then (B-R14).
  At most one flush is in flight; the next one is ordered when its event comes back (group commit).

`HighWatermarkAdvanced` means: read the batches below `to` from the log, feed the loader. It comes before `LeadershipClaimed` in
the list, so the controller becomes active with all earlier records replayed (B-C21).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
    from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
    from headrace.wire.messages.fetch import FetchRequest, FetchResponse
    from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
    from headrace.wire.messages.vote import VoteRequest, VoteResponse

    RaftRequest = (
        VoteRequest
        | BeginQuorumEpochRequest
        | EndQuorumEpochRequest
        | FetchRequest
        | FetchSnapshotRequest
        | DescribeQuorumRequest
    )
    RaftResponse = (
        VoteResponse
        | BeginQuorumEpochResponse
        | EndQuorumEpochResponse
        | FetchResponse
        | FetchSnapshotResponse
        | DescribeQuorumResponse
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The election state that must survive a crash (B-R03). -1 = none; `voted_directory_id` only with kraft.version 1."""

    leader_epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid | None = None


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    """The log is recovered and the stored quorum state was given to the constructor. Once, first."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAdvanced:
    """A deadline (`RaftNode.next_deadline_ms`) may have passed. Monotonic milliseconds."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStateStored:
    """The state of a `StoreQuorumState` is on disk."""

    state: QuorumState
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed:
    """Everything below `upto` of the metadata log is on disk (exclusive)."""

    upto: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOffered:
    """The active controller wants these records in the log, all in one batch, the first at `base_offset`, in `epoch`.

    Each element is one framed metadata record (B-C00). When this node no longer leads `epoch` nothing is appended: the
    controller is told by `LeadershipLost`.
    """

    records: tuple[bytes, ...]
    base_offset: int
    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftRequestArrived:
    """A peer, an observer or a tool asks; exactly one `AnswerRaftRequest` with the same `token` follows, now or later.

    For Fetch on `__cluster_metadata` only; fetches of other topics are the broker's. `client_host` is for messages only.
    """

    token: int
    request: RaftRequest
    api_version: int
    listener: str
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCreated:
    """A snapshot of the image is whole on disk: the log below `end_offset` may go when the limits say so."""

    end_offset: int
    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownBegan:
    """The node stops: give up leadership."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
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
    | SnapshotCreated
    | ShutdownBegan
    | ResignRequested
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuorumState:
    """Replace the file `quorum-state` durably, then feed `QuorumStateStored`."""

    state: QuorumState
    durable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLog:
    """Flush the metadata log off the loop, then feed `LogFlushed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    """Records below `to` are committed: give them to the metadata loader."""

    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipClaimed:
    """This node leads `epoch` and everything before it is committed and was handed over; the next record gets `next_offset`."""

    epoch: int
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipLost:
    """This node no longer leads `epoch`; `leader_id` is the new leader or -1."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """Who leads as far as this node knows; `leader_id` -1 = nobody. For `Broker.forward` and metrics."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRaftRequest:
    """The answer to a `RaftRequestArrived`."""

    token: int
    response: RaftResponse


RaftEffect = (
    StoreQuorumState
    | FlushLog
    | HighWatermarkAdvanced
    | LeadershipClaimed
    | LeadershipLost
    | LeaderChanged
    | AnswerRaftRequest
)
