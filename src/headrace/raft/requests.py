"""What do requests to a node of the quorum get, now or when the log has moved on?

The desk checks requests (cluster id, the one partition, the epoch) and keeps the fetches that wait. It changes no role: with one
voter, nobody else may stand for election, so whoever asks for a vote or claims to lead is told that the voter sets differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import OutOfRange, PartitionLogPort
from headrace.raft import serving
from headrace.raft.events import AnswerRaftRequest, RaftRequestArrived
from headrace.raft.replication import Observers, ReplicaProgress, SnapshotsPort, ValidPosition, check_position
from headrace.raft.roles import Leader, Role
from headrace.raft.serving import METADATA_TOPIC, FetchOutcome, LeaderHint, QuorumStatus, SnapshotPiece
from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
)
from headrace.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from headrace.raft.config import RaftConfig
    from headrace.raft.events import RaftResponse

MAX_WAITING_FETCHES = 10_000
"""More fetches than this do not wait: they are answered empty at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """What the desk may know of the machine at the time of a request."""

    config: RaftConfig
    role: Role
    leader_id: int
    flushed: int
    is_shutting_down: bool

    def hint(self, listener: str) -> LeaderHint:
        """Who leads, and where the asker's listener finds it."""
        end_point = None
        if self.leader_id == self.config.node_id:
            end_point = next((each for each in self.config.end_points if each.name == listener), None)
        return LeaderHint(leader_id=self.leader_id, leader_epoch=self.role.epoch, end_point=end_point)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WaitingFetch:
    event: RaftRequestArrived
    partition: FetchPartition
    deadline_ms: int


class RequestDesk:
    """Answers requests; holds the fetches that wait for records, for the high watermark, or for their time to run out."""

    def __init__(self, *, log: PartitionLogPort, snapshots: SnapshotsPort) -> None:
        self._log = log
        self._snapshots = snapshots
        self._waiting: dict[int, _WaitingFetch] = {}
        self.observers = Observers()

    def next_deadline_ms(self) -> int | None:
        """When the first waiting fetch must be answered."""
        return min((each.deadline_ms for each in self._waiting.values()), default=None)

    def arrived(self, event: RaftRequestArrived, view: QuorumView) -> Iterator[AnswerRaftRequest]:
        """The answer to a request; none yet for a fetch that waits."""
        response = self._answer(event, view)
        if response is not None:
            yield AnswerRaftRequest(token=event.token, response=response)

    def log_grew(self, view: QuorumView) -> Iterator[AnswerRaftRequest]:
        """Records were written: fetches below the end get them."""
        end = self._log.log_end_offset
        due = [token for token, each in self._waiting.items() if each.partition.fetch_offset < end]
        yield from self._complete(due, view)

    def high_watermark_moved(self, view: QuorumView) -> Iterator[AnswerRaftRequest]:
        """Fetchers that know a lower one are told (Fetch v18 says which they know)."""
        high_watermark = self._log.high_watermark
        due = [token for token, each in self._waiting.items() if each.partition.high_watermark < high_watermark]
        yield from self._complete(due, view)

    def time_advanced(self, view: QuorumView, now_ms: int) -> Iterator[AnswerRaftRequest]:
        """Fetches whose time has run out get what there is."""
        due = [token for token, each in self._waiting.items() if now_ms >= each.deadline_ms]
        yield from self._complete(due, view)

    def leadership_lost(self, view: QuorumView) -> Iterator[AnswerRaftRequest]:
        """All waiting fetches are told to look elsewhere."""
        yield from self._complete(list(self._waiting), view)

    def epoch_began(self) -> None:
        """This node leads a new epoch."""
        self.observers.forget_all()

    def _complete(self, tokens: list[int], view: QuorumView) -> Iterator[AnswerRaftRequest]:
        for token in tokens:
            waiting = self._waiting.pop(token)
            outcome = self._outcome(waiting.partition, waiting.event, view)
            response = serving.fetch_answer(
                outcome, view.hint(waiting.event.listener), version=waiting.event.api_version
            )
            yield AnswerRaftRequest(token=token, response=response)

    def _answer(self, event: RaftRequestArrived, view: QuorumView) -> RaftResponse | None:
        request = event.request
        match request:
            case VoteRequest():
                return self._vote(request, event, view)
            case BeginQuorumEpochRequest():
                return self._begin_epoch(request, event, view)
            case EndQuorumEpochRequest():
                return self._end_epoch(request, event, view)
            case FetchRequest():
                return self._fetch(request, event, view)
            case FetchSnapshotRequest():
                return self._fetch_snapshot(request, event, view)
            case DescribeQuorumRequest():
                return self._describe_quorum(request, event, view)
            case _:
                assert_never(request)

    # Voters

    def _vote(self, request: VoteRequest, event: RaftRequestArrived, view: QuorumView) -> VoteResponse:
        if not _same_cluster(request.cluster_id, view):
            return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        if not serving.is_metadata_partition(topic.topic_name, asked.partition_index):
            return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
        is_behind = asked.replica_epoch <= asked.last_offset_epoch and not asked.pre_vote
        if asked.last_offset < 0 or asked.last_offset_epoch < 0 or is_behind:
            error = ErrorCode.INVALID_REQUEST
        else:
            error = _voter_error(asked.replica_id, asked.replica_directory_id, asked.replica_epoch, view)
            if error is ErrorCode.NONE:
                error = _own_key_error(request.voter_id, asked.voter_directory_id, view)
        return serving.vote_answer(error, view.hint(event.listener), is_granted=False, version=event.api_version)

    def _begin_epoch(
        self, request: BeginQuorumEpochRequest, event: RaftRequestArrived, view: QuorumView
    ) -> BeginQuorumEpochResponse:
        if not _same_cluster(request.cluster_id, view):
            return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        if not serving.is_metadata_partition(topic.topic_name, asked.partition_index):
            return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        error = _voter_error(asked.leader_id, ZERO_UUID, asked.leader_epoch, view)
        if error is ErrorCode.NONE:
            error = _own_key_error(request.voter_id, asked.voter_directory_id, view)
        return serving.begin_epoch_answer(error, view.hint(event.listener), version=event.api_version)

    def _end_epoch(
        self, request: EndQuorumEpochRequest, event: RaftRequestArrived, view: QuorumView
    ) -> EndQuorumEpochResponse:
        if not _same_cluster(request.cluster_id, view):
            return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        if not serving.is_metadata_partition(topic.topic_name, asked.partition_index):
            return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        error = _voter_error(asked.leader_id, ZERO_UUID, asked.leader_epoch, view)
        return serving.end_epoch_answer(error, view.hint(event.listener), version=event.api_version)

    # Readers

    def _fetch(self, request: FetchRequest, event: RaftRequestArrived, view: QuorumView) -> FetchResponse | None:
        if not _same_cluster(request.cluster_id, view):
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        name: str | Uuid = topic.topic_id if event.api_version >= 13 else topic.topic
        if not serving.is_metadata_partition(name, asked.partition):
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        hint = view.hint(event.listener)
        is_invalid = min(request.max_wait_ms, asked.fetch_offset, asked.last_fetched_epoch) < 0
        if is_invalid or asked.current_leader_epoch <= 0:
            outcome = FetchOutcome(error=ErrorCode.INVALID_REQUEST)
            return serving.fetch_answer(outcome, hint, version=event.api_version)
        outcome = self._outcome(asked, event, view)
        is_empty = outcome.error is ErrorCode.NONE and not outcome.records
        knows_high_watermark = asked.high_watermark >= self._log.high_watermark
        can_wait = request.max_wait_ms > 0 and len(self._waiting) < MAX_WAITING_FETCHES
        if is_empty and isinstance(outcome.position, ValidPosition) and knows_high_watermark and can_wait:
            deadline = event.now_ms + request.max_wait_ms
            self._waiting[event.token] = _WaitingFetch(event=event, partition=asked, deadline_ms=deadline)
            return None
        return serving.fetch_answer(outcome, hint, version=event.api_version)

    def _outcome(self, asked: FetchPartition, event: RaftRequestArrived, view: QuorumView) -> FetchOutcome:
        """What a fetch gets now. Also notes how far the fetcher is."""
        error = _leader_error(asked.current_leader_epoch, view)
        if error is not ErrorCode.NONE:
            return FetchOutcome(error=error)
        request = event.request
        assert isinstance(request, FetchRequest)
        replica_id = request.replica_state.replica_id if event.api_version >= 15 else request.replica_id
        at = OffsetAndEpoch(asked.fetch_offset, asked.last_fetched_epoch)
        position = check_position(self._log, self._snapshots.ids(), at)
        records = b""
        if isinstance(position, ValidPosition):
            limit = min(request.max_bytes, view.config.fetch_max_bytes, max(asked.partition_max_bytes, 1))
            end = self._log.log_end_offset
            found = self._log.read_bytes(asked.fetch_offset, limit, upper_offset=end, min_one_batch=True)
            records = b"" if isinstance(found, OutOfRange) else found
            if replica_id >= 0 and not view.config.voters.has(replica_id, asked.replica_directory_id):
                self.observers.fetched(
                    replica_id,
                    asked.replica_directory_id,
                    fetch_offset=asked.fetch_offset,
                    leader_end=end,
                    now_ms=event.now_ms,
                )
        return FetchOutcome(
            position=position,
            records=records,
            high_watermark=self._log.high_watermark,
            log_start_offset=self._log.log_start_offset,
        )

    def _fetch_snapshot(
        self, request: FetchSnapshotRequest, event: RaftRequestArrived, view: QuorumView
    ) -> FetchSnapshotResponse:
        if not _same_cluster(request.cluster_id, view):
            return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        if not serving.is_metadata_partition(topic.name, asked.partition):
            piece = SnapshotPiece(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            piece = self._snapshot_piece(request, asked, view)
        return serving.fetch_snapshot_answer(piece, view.hint(event.listener), version=event.api_version)

    def _snapshot_piece(
        self, request: FetchSnapshotRequest, asked: RequestPartitionSnapshot, view: QuorumView
    ) -> SnapshotPiece:
        error = _leader_error(asked.current_leader_epoch, view)
        if error is not ErrorCode.NONE:
            return SnapshotPiece(error=error)
        snapshot_id = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size = self._snapshots.size(snapshot_id) if snapshot_id.offset > 0 else None
        if size is None:
            return SnapshotPiece(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= asked.position < size:
            return SnapshotPiece(error=ErrorCode.POSITION_OUT_OF_RANGE, snapshot_id=snapshot_id)
        limit = max(1, min(request.max_bytes, view.config.fetch_max_bytes))
        data = self._snapshots.read(snapshot_id, asked.position, limit)
        if data is None:
            return SnapshotPiece(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        return SnapshotPiece(snapshot_id=snapshot_id, size=size, position=asked.position, data=data)

    def _describe_quorum(
        self, request: DescribeQuorumRequest, event: RaftRequestArrived, view: QuorumView
    ) -> DescribeQuorumResponse:
        names = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
        if names != [(METADATA_TOPIC, 0)]:
            return serving.refused_describe_quorum(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not isinstance(view.role, Leader):
            return serving.refused_describe_quorum(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        own = ReplicaProgress(
            replica_id=view.config.node_id,
            directory_id=view.config.directory_id if view.config.voters.kraft_version > 0 else ZERO_UUID,
            log_end_offset=self._log.log_end_offset,
            last_fetch_ms=event.now_ms,
            last_caught_up_ms=event.now_ms,
        )
        status = QuorumStatus(
            hint=view.hint(event.listener),
            high_watermark=self._log.high_watermark,
            voters=(own,),
            observers=self.observers.alive(event.now_ms),
            nodes=view.config.voters.voters,
        )
        return serving.describe_quorum_answer(status, version=event.api_version)


def _same_cluster(cluster_id: str | None, view: QuorumView) -> bool:
    """S1-28: a request may leave the cluster id out, but not name another."""
    return cluster_id is None or cluster_id == view.config.cluster_id


def _leader_error(epoch: int, view: QuorumView) -> ErrorCode:
    """Why this node cannot serve a reader that knows `epoch`."""
    if view.is_shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if epoch < view.role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > view.role.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(view.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _voter_error(replica_id: int, directory_id: Uuid, epoch: int, view: QuorumView) -> ErrorCode:
    """Why a request that only voters may send is refused."""
    if view.is_shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if epoch < view.role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if replica_id < 0:
        return ErrorCode.INVALID_REQUEST
    if not view.config.voters.has(replica_id, directory_id):
        return ErrorCode.INCONSISTENT_VOTER_SET
    return ErrorCode.NONE if replica_id != view.config.node_id else ErrorCode.INVALID_REQUEST


def _own_key_error(voter_id: int, directory_id: Uuid, view: QuorumView) -> ErrorCode:
    """Whether the request is meant for another replica than this one (KIP-853)."""
    is_other_id = voter_id not in (-1, view.config.node_id)
    is_other_directory = directory_id not in (ZERO_UUID, view.config.directory_id)
    return ErrorCode.INVALID_VOTER_KEY if is_other_id or is_other_directory else ErrorCode.NONE
