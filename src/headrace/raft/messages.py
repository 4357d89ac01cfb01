"""Requests of this node to the others of the quorum.

Builds requests with the fields of all versions; the driver sends the highest version that both ends know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.ids import METADATA_TOPIC_ID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.voters import Voter, VoterEndPoint
from headrace.wire.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)

if TYPE_CHECKING:
    from headrace.raft.config import RaftConfig

METADATA_TOPIC = "__cluster_metadata"


def vote_request(
    config: RaftConfig, voter: Voter, *, epoch: int, log_end: OffsetAndEpoch, is_pre_vote: bool
) -> vote.VoteRequest:
    """For `voter`; with `is_pre_vote`, only a question (KIP-996; B-R04)."""
    partition = vote.RequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=config.node_id,
        replica_directory_id=config.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.offset,
        pre_vote=is_pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return vote.VoteRequest(cluster_id=config.cluster_id, voter_id=voter.voter_id, topics=(topic,))


def begin_epoch_request(config: RaftConfig, voter: Voter, *, epoch: int) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """This node leads `epoch`, and is found there (B-R07)."""
    partition = begin_quorum_epoch.RequestPartitionData(
        partition_index=0, voter_directory_id=voter.directory_id, leader_id=config.node_id, leader_epoch=epoch
    )
    topic = begin_quorum_epoch.RequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter.voter_id,
        topics=(topic,),
        leader_endpoints=tuple(
            begin_quorum_epoch.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in config.end_points
        ),
    )


def end_epoch_request(
    config: RaftConfig, *, epoch: int, successors: Sequence[tuple[int, Uuid]]
) -> end_quorum_epoch.EndQuorumEpochRequest:
    """This node led `epoch` and does not any more; `successors` the most caught-up first (B-R08)."""
    partition = end_quorum_epoch.RequestPartitionData(
        partition_index=0,
        leader_id=config.node_id,
        leader_epoch=epoch,
        preferred_successors=tuple(voter_id for voter_id, _ in successors),
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(candidate_id=voter_id, candidate_directory_id=directory_id)
            for voter_id, directory_id in successors
        ),
    )
    topic = end_quorum_epoch.RequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=(topic,),
        leader_endpoints=tuple(
            end_quorum_epoch.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in config.end_points
        ),
    )


def fetch_request(config: RaftConfig, *, epoch: int, at: OffsetAndEpoch, high_watermark: int) -> fetch.FetchRequest:
    """The log from `at.offset` on; our last record is of `at.epoch` (B-R09). `high_watermark` -1 = none known yet (KIP-1166)."""
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=at.offset,
        last_fetched_epoch=at.epoch,
        replica_directory_id=config.directory_id,
        high_watermark=high_watermark,
    )
    topic = fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch.FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=config.node_id),
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=0,
        max_bytes=config.fetch_max_bytes,
        topics=(topic,),
    )


def fetch_snapshot_request(
    config: RaftConfig, *, epoch: int, snapshot_id: OffsetAndEpoch, position: int
) -> fetch_snapshot.FetchSnapshotRequest:
    """Bytes of the snapshot from `position` on (B-S06)."""
    partition = fetch_snapshot.RequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        position=position,
        replica_directory_id=config.directory_id,
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=config.node_id,
        max_bytes=config.snapshot_fetch_max_bytes,
        topics=(topic,),
    )


def update_voter_request(config: RaftConfig, *, epoch: int) -> update_raft_voter.UpdateRaftVoterRequest:
    """Where this voter listens now, and which levels of kraft.version it can work with (B-R26)."""
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=tuple(update_raft_voter.Listener(name=e.name, host=e.host, port=e.port) for e in config.end_points),
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=config.min_kraft_version, max_supported_version=config.max_kraft_version
        ),
    )


def join_request(config: RaftConfig) -> add_raft_voter.AddRaftVoterRequest:
    """KIP-853, auto-join: make this node a voter; answered once the change is written, not committed."""
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=config.request_timeout_ms,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=tuple(add_raft_voter.Listener(name=e.name, host=e.host, port=e.port) for e in config.end_points),
        ack_when_committed=False,
    )


def remove_former_request(config: RaftConfig, former: Voter) -> remove_raft_voter.RemoveRaftVoterRequest:
    """KIP-853, auto-join: remove the voter that had this node's id with another directory."""
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=config.cluster_id, voter_id=former.voter_id, voter_directory_id=former.directory_id
    )


def own_voter(config: RaftConfig) -> Voter:
    """This node as a voter of a dynamic quorum."""
    return Voter(
        voter_id=config.node_id,
        directory_id=config.directory_id,
        end_points=config.end_points,
        min_kraft_version=config.min_kraft_version,
        max_kraft_version=config.max_kraft_version,
    )


def end_points_of(listeners: Sequence[object]) -> tuple[VoterEndPoint, ...]:
    """The end points of a message's listeners (each has name, host and port)."""
    return tuple(VoterEndPoint(each.name, each.host, each.port) for each in listeners)  # type: ignore[attr-defined]
