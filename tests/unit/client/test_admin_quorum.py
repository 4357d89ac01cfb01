"""What does a client make of the answers about the quorum?"""

from __future__ import annotations

import pytest

from headrace.client import admin_quorum
from headrace.client.admin_quorum import QuorumInfo, ReplicaState, VoterEndPoint, quorum_error, quorum_info
from headrace.client.talk import Answered
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.codec import decode, encode
from headrace.wire.messages import describe_quorum as wire
from headrace.wire.messages.add_raft_voter import AddRaftVoterResponse
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from tests.support.conversation import Cluster, knowing, message_of

A = Uuid(b"a" * 16)


def answer(*, leader_id: int = 1, views: tuple[wire.NodeView, ...] = (), error: int = 0) -> wire.DescribeQuorumResponse:
    partition = wire.ResponsePartitionData(
        partition_index=0,
        error_code=error,
        error_message="",
        leader_id=leader_id,
        leader_epoch=3,
        high_watermark=10,
        current_voters=(
            wire.ReplicaState(
                replica_id=1,
                replica_directory_id=A,
                log_end_offset=11,
                last_fetch_timestamp=5,
                last_caught_up_timestamp=6,
            ),
        ),
        observers=(
            wire.ReplicaState(replica_id=4, log_end_offset=-1, last_fetch_timestamp=-1, last_caught_up_timestamp=-1),
        ),
    )
    node = wire.Node(node_id=1, listeners=(wire.Listener(name="C", host="h", port=9),))
    topics = (wire.ResponseTopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
    return wire.DescribeQuorumResponse(error_message="", topics=topics, nodes=(node,), node_views=views)


def test_quorum_info_has_none_for_what_the_leader_does_not_know() -> None:
    """S4-52, S4-53, S4-49."""
    assert quorum_info(answer()) == QuorumInfo(
        leader_id=1,
        leader_epoch=3,
        high_watermark=10,
        voters=(
            ReplicaState(
                replica_id=1, directory_id=A, log_end_offset=11, last_fetch_timestamp=5, last_caught_up_timestamp=6
            ),
        ),
        observers=(
            ReplicaState(
                replica_id=4,
                directory_id=ZERO_UUID,
                log_end_offset=None,
                last_fetch_timestamp=None,
                last_caught_up_timestamp=None,
            ),
        ),
        target_voters=frozenset({1}),
        end_points={1: (VoterEndPoint(name="C", host="h", port=9),)},
    )
    assert quorum_info(answer(leader_id=-1)).leader_id is None
    assert quorum_info(answer(leader_id=-1)).leader is None


def test_target_voters_are_those_of_an_uncommitted_voter_set() -> None:
    """S4-47, S4-52: the leader's own view tells the set in its log, and where it stands."""
    voters = (wire.NodeVoter(voter_id=1), wire.NodeVoter(voter_id=2))
    uncommitted = wire.NodeView(node_id=1, voter_set_offset=10, voters=voters)
    committed = wire.NodeView(node_id=1, voter_set_offset=9, voters=voters)
    of_another = wire.NodeView(node_id=2, voter_set_offset=10, voters=voters)
    assert quorum_info(answer(views=(uncommitted,))).target_voters == {1, 2}
    assert quorum_info(answer(views=(committed,))).target_voters == {1}
    assert quorum_info(answer(views=(of_another,))).target_voters == {1}


def test_version_0_carries_no_times_and_no_directories() -> None:
    """S4-49, S4-50: what an older version has no room for is unknown."""
    sent = wire.DescribeQuorumResponse(topics=answer().topics[:0])
    assert decode(wire.DescribeQuorumResponse, encode(sent, 0), 0).nodes == ()
    part = answer().topics[0].partitions[0]
    bare = wire.ReplicaState(replica_id=1, log_end_offset=11)
    old = wire.DescribeQuorumResponse(
        topics=(
            wire.ResponseTopicData(
                topic_name="__cluster_metadata",
                partitions=(
                    wire.ResponsePartitionData(
                        leader_id=1, leader_epoch=3, high_watermark=part.high_watermark, current_voters=(bare,)
                    ),
                ),
            ),
        )
    )
    info = quorum_info(decode(wire.DescribeQuorumResponse, encode(old, 0), 0))
    assert info.voters[0].last_caught_up_timestamp is None


def test_an_error_at_any_level_is_the_answers_error() -> None:
    """S4-42, S4-51."""
    assert quorum_error(answer()) is None
    refused = quorum_error(answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert refused is not None
    assert refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    whole = quorum_error(wire.DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert whole is not None
    assert whole.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    empty = quorum_error(wire.DescribeQuorumResponse())
    assert empty is not None
    assert empty.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_voters_are_added_and_removed_by_key() -> None:
    """B-T07, KIP-853: id and directory id, and where the new voter listens."""
    found = knowing()
    errors: dict[str, object] = {
        "AddRaftVoterRequest": AddRaftVoterResponse(),
        "RemoveRaftVoterRequest": RemoveRaftVoterResponse(),
    }
    cluster = Cluster(found, lambda ask: Answered(response=errors[type(message_of(ask)).__name__], version=1))
    where = VoterEndPoint(name="C", host="h", port=9)
    cluster.hold(admin_quorum.add_raft_voter(found, 4, A, [where]))
    cluster.hold(admin_quorum.remove_raft_voter(found, 4, A))
    added, removed = map(message_of, cluster.asked)
    assert (added.voter_id, added.voter_directory_id, added.cluster_id) == (4, A, None)
    assert [(each.name, each.host, each.port) for each in added.listeners] == [("C", "h", 9)]
    assert (removed.voter_id, removed.voter_directory_id) == (4, A)


def test_a_refused_voter_is_an_error_with_the_leaders_words() -> None:
    """B-T07: no retry, it would not help."""
    found = knowing()
    refusal = AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="4 is one already")
    cluster = Cluster(found, lambda _: Answered(response=refusal, version=0))
    with pytest.raises(PeerError, match="4 is one already"):
        cluster.hold(admin_quorum.add_raft_voter(found, 4, A, []))
    assert len(cluster.asked) == 1
