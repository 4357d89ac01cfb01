"""Responses to requests of the quorum.

Builds the answers of Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot and DescribeQuorum; the machine decides what is
in them. One topic with one partition a request, or it is refused: there is no other raft group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.values import value_class
from headrace.raft.replicas import ReplicaProgress
from headrace.raft.replication import Diverging, NeedsSnapshot, Position
from headrace.raft.roles import Leader, Role
from headrace.raft.voters import Voter, VoterEndPoint
from headrace.wire.messages import begin_quorum_epoch, describe_quorum, end_quorum_epoch, fetch, fetch_snapshot, vote

if TYPE_CHECKING:
    from headrace.raft.config import RaftConfig

METADATA_TOPIC = "__cluster_metadata"
NO_SNAPSHOT = OffsetAndEpoch(-1, -1)


@value_class
class LeaderHint:
    """Who leads, told in every answer; `leader_id` -1 = unknown. `end_point` is that of the asker's listener."""

    leader_id: int
    leader_epoch: int
    end_point: VoterEndPoint | None = None


def check_single_partition(own_cluster_id: str, cluster_id: str | None, topics: Sequence[Any]) -> ErrorCode:
    """The request may leave the cluster id out but not name another, and must mean the metadata log alone (S1-28, B-R21, B-R06)."""
    if cluster_id is not None and cluster_id != own_cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    if not is_metadata_partition(topics[0].topic_name, topics[0].partitions[0].partition_index):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def own_key_error(config: RaftConfig, voter_id: int, directory_id: Uuid) -> ErrorCode:
    """Whether the request is meant for another replica than this one (KIP-853); -1 and the zero id mean anybody (R21)."""
    is_other_id = voter_id not in (-1, config.node_id)
    is_other_directory = directory_id not in (ZERO_UUID, config.directory_id)
    return ErrorCode.INVALID_VOTER_KEY if is_other_id or is_other_directory else ErrorCode.NONE


def leader_error(role: Role, epoch: int, *, is_shutting_down: bool) -> ErrorCode:
    """Why this node cannot serve one who knows `epoch` (B-R10)."""
    if epoch < role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > role.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if is_shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    return ErrorCode.NONE if isinstance(role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def position_among(successors: Sequence[tuple[int, object]], node_id: int, directory_id: Uuid) -> int:
    """This replica's place among (id, directory id or None); their number when it is not one of them."""
    for position, (each, directory) in enumerate(successors):
        if each == node_id and directory in (None, ZERO_UUID, directory_id):
            return position
    return len(successors)


def vote_answer(error: ErrorCode, hint: LeaderHint, *, is_granted: bool, version: int) -> vote.VoteResponse:
    """The answer to Vote."""
    partition = vote.ResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=hint.leader_id,
        leader_epoch=hint.leader_epoch,
        vote_granted=is_granted,
    )
    nodes: tuple[vote.NodeEndpoint, ...] = ()
    if version >= 1 and hint.end_point is not None:
        nodes = (vote.NodeEndpoint(node_id=hint.leader_id, host=hint.end_point.host, port=hint.end_point.port),)
    topic = vote.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return vote.VoteResponse(topics=(topic,), node_endpoints=nodes)


def begin_epoch_answer(
    error: ErrorCode, hint: LeaderHint, *, version: int
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    """The answer to BeginQuorumEpoch."""
    partition = begin_quorum_epoch.ResponsePartitionData(
        partition_index=0, error_code=error, leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
    )
    nodes: tuple[begin_quorum_epoch.NodeEndpoint, ...] = ()
    if version >= 1 and hint.end_point is not None:
        end_point = hint.end_point
        nodes = (begin_quorum_epoch.NodeEndpoint(node_id=hint.leader_id, host=end_point.host, port=end_point.port),)
    topic = begin_quorum_epoch.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochResponse(topics=(topic,), node_endpoints=nodes)


def end_epoch_answer(error: ErrorCode, hint: LeaderHint, *, version: int) -> end_quorum_epoch.EndQuorumEpochResponse:
    """The answer to EndQuorumEpoch."""
    partition = end_quorum_epoch.ResponsePartitionData(
        partition_index=0, error_code=error, leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
    )
    nodes: tuple[end_quorum_epoch.NodeEndpoint, ...] = ()
    if version >= 1 and hint.end_point is not None:
        end_point = hint.end_point
        nodes = (end_quorum_epoch.NodeEndpoint(node_id=hint.leader_id, host=end_point.host, port=end_point.port),)
    topic = end_quorum_epoch.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return end_quorum_epoch.EndQuorumEpochResponse(topics=(topic,), node_endpoints=nodes)


@value_class
class FetchOutcome:
    """What a fetch of the metadata log is answered with. Offsets -1 = unknown."""

    error: ErrorCode = ErrorCode.NONE
    position: Position | None = None
    records: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = -1


def fetch_answer(outcome: FetchOutcome, hint: LeaderHint, *, version: int) -> fetch.FetchResponse:
    """The answer to Fetch on `__cluster_metadata`."""
    diverging = fetch.EpochEndOffset()
    snapshot_id = fetch.SnapshotId()
    match outcome.position:
        case Diverging(end=end):
            diverging = fetch.EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
        case NeedsSnapshot(snapshot_id=needed):
            snapshot_id = fetch.SnapshotId(end_offset=needed.offset, epoch=needed.epoch)
        case _:
            pass
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=outcome.error,
        high_watermark=outcome.high_watermark,
        log_start_offset=outcome.log_start_offset,
        last_stable_offset=-1,
        diverging_epoch=diverging if version >= 12 else fetch.EpochEndOffset(),
        current_leader=(
            fetch.LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
            if version >= 12
            else fetch.LeaderIdAndEpoch()
        ),
        snapshot_id=snapshot_id if version >= 12 else fetch.SnapshotId(),
        aborted_transactions=None,
        records=outcome.records,
    )
    nodes: tuple[fetch.NodeEndpoint, ...] = ()
    if version >= 17 and hint.end_point is not None:
        end_point = hint.end_point
        nodes = (fetch.NodeEndpoint(node_id=hint.leader_id, host=end_point.host, port=end_point.port),)
    topic = fetch.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch.FetchResponse(responses=(topic,), node_endpoints=nodes)


@value_class
class SnapshotPiece:
    """What a FetchSnapshot is answered with: bytes of a snapshot from `position`, of `size` in all."""

    error: ErrorCode = ErrorCode.NONE
    snapshot_id: OffsetAndEpoch = NO_SNAPSHOT
    size: int = 0
    position: int = 0
    data: bytes = b""


def fetch_snapshot_answer(
    piece: SnapshotPiece, hint: LeaderHint, *, version: int
) -> fetch_snapshot.FetchSnapshotResponse:
    """The answer to FetchSnapshot (B-S06)."""
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        index=0,
        error_code=piece.error,
        snapshot_id=fetch_snapshot.ResponseSnapshotId(
            end_offset=piece.snapshot_id.offset, epoch=piece.snapshot_id.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch),
        size=piece.size,
        position=piece.position,
        unaligned_records=piece.data,
    )
    nodes: tuple[fetch_snapshot.NodeEndpoint, ...] = ()
    if version >= 1 and hint.end_point is not None:
        end_point = hint.end_point
        nodes = (fetch_snapshot.NodeEndpoint(node_id=hint.leader_id, host=end_point.host, port=end_point.port),)
    topic = fetch_snapshot.ResponseTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotResponse(topics=(topic,), node_endpoints=nodes)


def no_such_snapshot_partition(topic: str, partition: int) -> fetch_snapshot.FetchSnapshotResponse:
    """There are no snapshots of the partition that was asked for; the answer names it (B-S07)."""
    refused = fetch_snapshot.ResponsePartitionSnapshot(
        index=partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unaligned_records=b""
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=(fetch_snapshot.ResponseTopicSnapshot(name=topic, partitions=(refused,)),)
    )


@value_class
class QuorumStatus:
    """What a leader tells about the quorum."""

    hint: LeaderHint
    high_watermark: int
    voters: Sequence[ReplicaProgress]
    observers: Sequence[ReplicaProgress]
    nodes: Sequence[Voter]


def describe_quorum_answer(status: QuorumStatus, *, version: int) -> describe_quorum.DescribeQuorumResponse:
    """The leader's answer to DescribeQuorum."""
    partition = describe_quorum.ResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message=None if version < 2 else "",
        leader_id=status.hint.leader_id,
        leader_epoch=status.hint.leader_epoch,
        high_watermark=status.high_watermark,
        current_voters=_replicas(status.voters, version=version),
        observers=_replicas(status.observers, version=version),
    )
    nodes: tuple[describe_quorum.Node, ...] = ()
    if version >= 2:
        nodes = tuple(
            describe_quorum.Node(
                node_id=voter.voter_id,
                listeners=tuple(
                    describe_quorum.Listener(name=e.name, host=e.host, port=e.port) for e in voter.end_points
                ),
            )
            for voter in status.nodes
        )
    topic = describe_quorum.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return describe_quorum.DescribeQuorumResponse(topics=(topic,), nodes=nodes, error_message="")


def _replicas(replicas: Iterable[ReplicaProgress], *, version: int) -> tuple[describe_quorum.ReplicaState, ...]:
    return tuple(
        describe_quorum.ReplicaState(
            replica_id=each.replica_id,
            replica_directory_id=each.directory_id if version >= 2 else ZERO_UUID,
            log_end_offset=each.log_end_offset,
            last_fetch_timestamp=each.last_fetch_ms,
            last_caught_up_timestamp=each.last_caught_up_ms,
        )
        for each in replicas
    )


def refused_describe_quorum(
    request: describe_quorum.DescribeQuorumRequest, error: ErrorCode
) -> describe_quorum.DescribeQuorumResponse:
    """The same error for every partition asked for."""
    topics = tuple(
        describe_quorum.ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                describe_quorum.ResponsePartitionData(
                    partition_index=each.partition_index, error_code=error, error_message=error.name
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return describe_quorum.DescribeQuorumResponse(topics=topics, error_message="")


def is_metadata_partition(topic: str | Uuid, partition: int) -> bool:
    """Whether a request means the metadata log, by name or by id."""
    return topic in (METADATA_TOPIC, METADATA_TOPIC_ID) and partition == 0
