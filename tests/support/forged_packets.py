"""Forged requests of the quorum: every kind, with any claim of who sends it, in which epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.core.ids import METADATA_TOPIC_ID, Uuid
from headrace.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.messages.update_raft_voter import Listener as UpdatedListener
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from headrace.raft.events import RaftRequest

NAME: Final = "__cluster_metadata"
NOWHERE: Final = ("CONTROLLER", "nowhere", 1)
"""Where nobody listens."""


def forged_vote(sender: int, directory_id: Uuid, epoch: int, *, is_pre_vote: bool = False) -> RaftRequest:
    """A vote for the sender, whose log is said to end as late as can be."""
    partition = vote.RequestPartitionData(
        replica_epoch=epoch,
        replica_id=sender,
        replica_directory_id=directory_id,
        last_offset=1 << 40,
        last_offset_epoch=epoch - 1,
        pre_vote=is_pre_vote,
    )
    return vote.VoteRequest(topics=(vote.RequestTopicData(topic_name=NAME, partitions=(partition,)),))


def forged_pre_vote(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The question that comes before a vote (KIP-996)."""
    return forged_vote(sender, directory_id, epoch, is_pre_vote=True)


def forged_begin(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The sender says that it leads, and is found where nobody listens."""
    partition = begin_quorum_epoch.RequestPartitionData(leader_id=sender, leader_epoch=epoch)
    name, host, port = NOWHERE
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        topics=(begin_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(partition,)),),
        leader_endpoints=(begin_quorum_epoch.LeaderEndpoint(name=name, host=host, port=port),),
    )


def forged_end(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The sender says that it led, and that nobody in particular follows it."""
    partition = end_quorum_epoch.RequestPartitionData(leader_id=sender, leader_epoch=epoch)
    name, host, port = NOWHERE
    return end_quorum_epoch.EndQuorumEpochRequest(
        topics=(end_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(partition,)),),
        leader_endpoints=(end_quorum_epoch.LeaderEndpoint(name=name, host=host, port=port),),
    )


def forged_fetch(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The sender reads the log of a leader of that epoch."""
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch, last_fetched_epoch=0, replica_directory_id=directory_id
    )
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=sender),
        topics=(fetch.FetchTopic(topic=NAME, topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def forged_fetch_snapshot(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The sender reads a snapshot."""
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=1, epoch=1),
        replica_directory_id=directory_id,
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=NAME, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(replica_id=sender, topics=(topic,))


def forged_addition(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The sender wants to be a voter; it is where nobody listens."""
    name, host, port = NOWHERE
    return AddRaftVoterRequest(
        timeout_ms=1_000,
        voter_id=sender,
        voter_directory_id=directory_id,
        listeners=(Listener(name=name, host=host, port=port),),
    )


def forged_update(sender: int, directory_id: Uuid, epoch: int) -> RaftRequest:
    """The sender listens elsewhere now, where nobody does."""
    name, host, port = NOWHERE
    return UpdateRaftVoterRequest(
        current_leader_epoch=epoch,
        voter_id=sender,
        voter_directory_id=directory_id,
        listeners=(UpdatedListener(name=name, host=host, port=port),),
    )


FORGERIES: Final[dict[str, Callable[[int, Uuid, int], RaftRequest]]] = {
    "vote": forged_vote,
    "pre-vote": forged_pre_vote,
    "begin": forged_begin,
    "end": forged_end,
    "fetch": forged_fetch,
    "fetch snapshot": forged_fetch_snapshot,
    "add": forged_addition,
    "update": forged_update,
}
"""What each kind of request is called, and how it is forged: by (sender, its directory, epoch)."""
