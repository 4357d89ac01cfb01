"""What readers of a leader's log get, now or when the log has moved on.

The desk serves Fetch, FetchSnapshot and DescribeQuorum: it checks requests (cluster id, the one partition, the epoch) and keeps the fetches
that wait for records, for the high watermark (KIP-1166), or for their time to run out. A reader that claims a later epoch deposes nobody: it
is answered UNKNOWN_LEADER_EPOCH, as in Kafka. A voter that is ahead says so in votes, and in its response to BeginQuorumEpoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.values import value_class
from headrace.log.ports import OutOfRange
from headrace.raft import serving
from headrace.raft.events import AnswerRaftRequest, RaftRequestArrived
from headrace.raft.replicas import ReplicaProgress
from headrace.raft.replication import Position, ValidPosition, check_position
from headrace.raft.roles import Leader
from headrace.raft.serving import METADATA_TOPIC, FetchOutcome, QuorumStatus, SnapshotPiece
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.raft.core import RaftCore
    from headrace.raft.leading import Leading
    from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

MAX_WAITING_FETCHES = 10_000
"""More fetches than this do not wait: they are answered empty at once."""
MAX_ANSWERS_A_STEP = 50
"""Of fetches that come due together so many are answered at once, voters first; a crowd's rest waits for the next ticks, and holds up nobody for long."""


@value_class
class _WaitingFetch:
    event: RaftRequestArrived
    request: FetchRequest
    partition: FetchPartition
    replica_id: int
    deadline_ms: int


class RequestDesk:
    """Answers readers, and holds the fetches that wait. Driven by `RaftNode`."""

    def __init__(self, core: RaftCore, leading: Leading) -> None:
        self._core = core
        self._leading = leading
        self._waiting: dict[int, _WaitingFetch] = {}
        self._late: dict[int, _WaitingFetch] = {}
        """Of a crowd that came due, those who are not answered yet."""

    # Fetches that wait

    def poll(self) -> None:
        """Answer the fetches whose time has run out."""
        if not self._waiting:
            return
        core = self._core
        due = [token for token, each in self._waiting.items() if core.now_ms >= each.deadline_ms]
        self._complete(due)
        if self._waiting:
            core.wake_at(min(each.deadline_ms for each in self._waiting.values()))

    def log_grew(self) -> None:
        """Records were written: fetches below the end get them."""
        end = self._core.log.log_end_offset
        self._complete([token for token, each in self._waiting.items() if each.partition.fetch_offset < end])

    def high_watermark_moved(self) -> None:
        """Fetchers that know a lower one are told (Fetch v18 says which they know)."""
        to = self._leading.high_watermark
        self._complete([token for token, each in self._waiting.items() if each.partition.high_watermark < to])

    def leadership_lost(self) -> None:
        """All waiting fetches are told to look elsewhere."""
        self._complete(list(self._waiting))

    def answer_late(self, *, is_tick: bool) -> None:
        """Some more of a crowd, at each tick: what happens meanwhile does not hasten it."""
        if not self._late:
            return
        if is_tick:
            self._answer([self._late.pop(token) for token in list(self._late)[:MAX_ANSWERS_A_STEP]])
        if self._late:
            self._core.wake_at(self._core.now_ms)

    def _complete(self, tokens: list[int]) -> None:
        due = {token: self._waiting.pop(token) for token in tokens}
        if len(due) > MAX_ANSWERS_A_STEP:
            voters = frozenset(self._core.voters.ids)
            ordered = sorted(due.items(), key=lambda each: each[1].replica_id not in voters)
            due, late = dict(ordered[:MAX_ANSWERS_A_STEP]), dict(ordered[MAX_ANSWERS_A_STEP:])
            self._late.update(late)
        self._answer(due.values())

    def _answer(self, due: Iterable[_WaitingFetch]) -> None:
        for waiting in due:
            outcome = self._outcome(waiting.partition, waiting.request)
            hint = self._core.hint(waiting.event.listener)
            response = serving.fetch_answer(outcome, hint, version=waiting.event.api_version)
            self._core.reveal(AnswerRaftRequest(token=waiting.event.token, response=response))

    # Fetch

    def fetch(self, event: RaftRequestArrived, request: FetchRequest) -> FetchResponse | None:
        """None: it waits (B-R09, B-R10)."""
        core = self._core
        error = self._request_error(request, event.api_version)
        if error is not ErrorCode.NONE:
            return FetchResponse(error_code=error)
        asked = request.topics[0].partitions[0]
        hint = core.hint(event.listener)
        is_invalid = min(request.max_wait_ms, asked.fetch_offset, asked.last_fetched_epoch) < 0
        if is_invalid or asked.last_fetched_epoch > asked.current_leader_epoch:
            return serving.fetch_answer(FetchOutcome(error=ErrorCode.INVALID_REQUEST), hint, version=event.api_version)
        replica_id = request.replica_state.replica_id if event.api_version >= 15 else request.replica_id
        position: Position | None = None
        if isinstance(core.role, Leader) and asked.current_leader_epoch == core.role.epoch:
            at = OffsetAndEpoch(asked.fetch_offset, asked.last_fetched_epoch)
            position = check_position(core.log, core.snapshots, at)
            if isinstance(position, ValidPosition):
                self._note_progress(asked, replica_id)
        outcome = self._outcome(asked, request, position)
        if outcome.error is ErrorCode.NONE and isinstance(position, ValidPosition):
            is_told = asked.high_watermark >= outcome.high_watermark
            can_wait = request.max_wait_ms > 0 and len(self._waiting) + len(self._late) < MAX_WAITING_FETCHES
            if not outcome.records and is_told and can_wait:
                deadline = event.now_ms + request.max_wait_ms
                self._waiting[event.token] = _WaitingFetch(
                    event=event, request=request, partition=asked, replica_id=replica_id, deadline_ms=deadline
                )
                return None
        return serving.fetch_answer(outcome, core.hint(event.listener), version=event.api_version)

    def _request_error(self, request: FetchRequest, version: int) -> ErrorCode:
        if request.cluster_id is not None and request.cluster_id != self._core.config.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return ErrorCode.INVALID_REQUEST
        topic = request.topics[0]
        name: str | Uuid = topic.topic_id if version >= 13 else topic.topic
        is_ours = serving.is_metadata_partition(name, topic.partitions[0].partition)
        return ErrorCode.NONE if is_ours else ErrorCode.INVALID_REQUEST

    def _outcome(self, asked: FetchPartition, request: FetchRequest, position: Position | None = None) -> FetchOutcome:
        """What a fetch gets now; `position` where that is known already."""
        core = self._core
        error = serving.leader_error(core.role, asked.current_leader_epoch, is_shutting_down=core.is_shutting_down)
        log = core.log
        if error is not ErrorCode.NONE:
            return FetchOutcome(error=error, log_start_offset=log.log_start_offset)
        if position is None:
            at = OffsetAndEpoch(asked.fetch_offset, asked.last_fetched_epoch)
            position = check_position(log, core.snapshots, at)
        records = b""
        if isinstance(position, ValidPosition) and asked.fetch_offset < log.log_end_offset:
            limit = min(request.max_bytes, core.config.fetch_max_bytes)
            if asked.partition_max_bytes > 0:
                limit = min(limit, asked.partition_max_bytes)
            found = log.read_bytes(
                asked.fetch_offset, max(1, limit), upper_offset=log.log_end_offset, min_one_batch=True
            )
            records = b"" if isinstance(found, OutOfRange) else found
        return FetchOutcome(
            position=position,
            records=records,
            high_watermark=self._leading.high_watermark,
            log_start_offset=log.log_start_offset,
        )

    def _note_progress(self, asked: FetchPartition, replica_id: int) -> None:
        """Who fetches with an id holds what is below; a tool (-1) leaves no state (B-R19)."""
        core = self._core
        if replica_id >= 0 and replica_id != core.config.node_id:
            core.outbox.heard_from(replica_id)
            self._leading.fetched(replica_id, asked.replica_directory_id, asked.fetch_offset)

    # Snapshots

    def fetch_snapshot(self, event: RaftRequestArrived, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """A piece of a snapshot, or why there is none (B-S06, B-S07)."""
        core = self._core
        if request.cluster_id is not None and request.cluster_id != core.config.cluster_id:
            return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        if not serving.is_metadata_partition(topic.name, asked.partition):
            return serving.no_such_snapshot_partition(topic.name, asked.partition)
        piece = self._snapshot_piece(request, asked)
        return serving.fetch_snapshot_answer(piece, core.hint(event.listener), version=event.api_version)

    def _snapshot_piece(self, request: FetchSnapshotRequest, asked: RequestPartitionSnapshot) -> SnapshotPiece:
        core = self._core
        error = serving.leader_error(core.role, asked.current_leader_epoch, is_shutting_down=core.is_shutting_down)
        if error is not ErrorCode.NONE:
            return SnapshotPiece(error=error)
        snapshot_id = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size = core.snapshots.size(snapshot_id) if snapshot_id.offset > 0 else None
        if size is None:
            return SnapshotPiece(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= asked.position < size:
            return SnapshotPiece(error=ErrorCode.POSITION_OUT_OF_RANGE, snapshot_id=snapshot_id)
        limit = max(1, min(request.max_bytes, core.config.snapshot_fetch_max_bytes))
        data = core.snapshots.read(snapshot_id, asked.position, limit)
        if data is None:
            return SnapshotPiece(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        self._leading.contacted(request.replica_id, asked.replica_directory_id)
        return SnapshotPiece(snapshot_id=snapshot_id, size=size, position=asked.position, data=data)

    # The quorum

    def describe_quorum(self, event: RaftRequestArrived, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        """Only the leader knows (S4-41..S4-53)."""
        core = self._core
        names = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
        if names != [(METADATA_TOPIC, 0)]:
            return serving.refused_describe_quorum(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not isinstance(core.role, Leader):
            return serving.refused_describe_quorum(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        status = QuorumStatus(
            hint=core.hint(event.listener),
            high_watermark=self._leading.high_watermark,
            voters=self._voters(event.now_ms),
            observers=self._leading.replicas.observers(event.now_ms),
            nodes=core.voters.voters,
        )
        return serving.describe_quorum_answer(status, version=event.api_version)

    def _voters(self, now_ms: int) -> list[ReplicaProgress]:
        """Every voter's progress by id, this leader's own included."""
        core = self._core
        own = ReplicaProgress(
            core.config.node_id,
            core.config.directory_id if core.voters.kraft_version > 0 else ZERO_UUID,
            log_end_offset=core.log.log_end_offset,
            last_fetch_ms=now_ms,
            last_caught_up_ms=now_ms,
        )
        voters = self._leading.replicas.voters
        return [own if each.voter_id == core.config.node_id else voters[each.voter_id] for each in core.voters.voters]
