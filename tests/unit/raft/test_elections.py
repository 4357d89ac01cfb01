"""Who is elected, by whom, and how soon?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import SendFailure
from headrace.raft.election import cannot_win, gives_way, starting_role, successor_backoff
from headrace.raft.events import (
    LinkLost,
    QuorumState,
    QuorumStateStored,
    RaftRequestFailed,
    ResignRequested,
    SendRaftRequest,
    ShutdownBegan,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from headrace.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch_snapshot, vote
from tests.support.raft import CLUSTER_ID
from tests.support.raft_cluster import RaftCluster, config, directory_id, end_point, static, static_cluster

NAME = "__cluster_metadata"
WHERE = (end_point(2),)


def alone(node_id: int = 1, **changes: Any) -> RaftCluster:
    """Voter 1 of three; the others are down."""
    cluster = static_cluster(1, 2, 3, **changes)
    for other in (1, 2, 3):
        if other != node_id:
            cluster.stop(other)
    cluster.stop(node_id)
    cluster.members[node_id].state = QuorumState()
    cluster._queue.clear()
    cluster.start(node_id)
    return cluster


def a_vote(
    epoch: int, *, replica: int = 2, pre: bool = False, end: tuple[int, int] = (0, 0), **changes: Any
) -> vote.VoteRequest:
    """Voter `replica` asks for a vote."""
    wanted: dict[str, Any] = {"cluster_id": CLUSTER_ID, "voter_id": 1, "to_directory": ZERO_UUID, **changes}
    partition = vote.RequestPartitionData(
        replica_epoch=epoch,
        replica_id=replica,
        replica_directory_id=directory_id(abs(replica)),
        voter_directory_id=wanted["to_directory"],
        last_offset=end[0],
        last_offset_epoch=end[1],
        pre_vote=pre,
    )
    topic = vote.RequestTopicData(topic_name=NAME, partitions=(partition,))
    return vote.VoteRequest(cluster_id=wanted["cluster_id"], voter_id=wanted["voter_id"], topics=(topic,))


def ask(cluster: RaftCluster, request: object) -> Any:
    """Node 1's answer; a vote leaves when it is on disk."""
    return cluster.answer(1, request, within_ms=10)


def is_granted(answer: vote.VoteResponse) -> bool:
    """Whether the vote was given."""
    return answer.topics[0].partitions[0].vote_granted


@pytest.mark.parametrize(
    ("state", "is_voter", "log_epoch", "where", "role"),
    [
        (QuorumState(), True, 0, (), Unattached(epoch=0)),
        (QuorumState(leader_epoch=4, leader_id=1), True, 4, (), Resigned(epoch=4)),
        (QuorumState(leader_epoch=4, leader_id=1), False, 4, (), Unattached(epoch=4, voted_id=1)),
        (QuorumState(leader_epoch=4, voted_id=1), True, 3, (), Candidate(epoch=4, election_deadline_ms=0)),
        (QuorumState(leader_epoch=4, voted_id=1), False, 3, (), Unattached(epoch=4, voted_id=1)),
        (QuorumState(leader_epoch=4, voted_id=3), True, 4, (), Unattached(epoch=4, voted_id=3)),
        (
            QuorumState(leader_epoch=4, leader_id=2, voted_id=3),
            True,
            4,
            WHERE,
            Follower(epoch=4, leader_id=2, leader_end_points=WHERE, voted_id=3),
        ),
        (QuorumState(leader_epoch=4, leader_id=2), True, 4, (), Unattached(epoch=4, leader_id=2)),
        (QuorumState(leader_epoch=4, leader_id=2), True, 5, WHERE, Unattached(epoch=5)),
        (QuorumState(leader_epoch=4, voted_id=1), True, 9, (), Unattached(epoch=9)),
    ],
)
def test_what_a_node_is_when_it_starts(
    state: QuorumState, *, is_voter: bool, log_epoch: int, where: tuple[Any, ...], role: Role
) -> None:
    """S4-25, S4-26, S4-27, S4-28, S4-40: every mix of file and log."""
    assert starting_role(state, node_id=1, is_voter=is_voter, log_epoch=log_epoch, leader_end_points=where) == role


def test_a_vote_is_on_disk_before_it_is_answered_and_given_once() -> None:
    """B-R03, B-R05, inv:R2, inv:R4, defect:K1: the answer leaves with the store; another candidate of the epoch gets nothing."""
    cluster = alone(elect_at_start=False)
    token = cluster.ask(1, a_vote(5))
    assert token not in cluster.answers
    assert cluster.members[1].state == QuorumState()
    cluster.run_for(2)
    assert is_granted(cluster.answers[token])  # type: ignore[arg-type]
    assert cluster.members[1].state.voted_id == 2
    assert not is_granted(ask(cluster, a_vote(5, replica=3)))
    assert is_granted(ask(cluster, a_vote(5)))
    cluster.stop(1)
    cluster.start(1)
    assert not is_granted(ask(cluster, a_vote(5, replica=3)))
    assert is_granted(ask(cluster, a_vote(6, replica=3)))


def test_a_pre_vote_binds_nobody_and_is_not_stored() -> None:
    """B-R27, KIP-996: any number of them, also after a vote; nothing is written."""
    cluster = alone(elect_at_start=False)
    assert is_granted(ask(cluster, a_vote(0, pre=True)))
    assert is_granted(ask(cluster, a_vote(0, replica=3, pre=True)))
    assert cluster.members[1].state == QuorumState()
    assert cluster.members[1].raft.role.epoch == 0


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (a_vote(5, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (vote.VoteRequest(cluster_id=CLUSTER_ID), ErrorCode.INVALID_REQUEST),
    ],
)
def test_votes_refused_as_a_whole(request_: vote.VoteRequest, error: ErrorCode) -> None:
    """B-R06, B-R21, inv:R21: another cluster, or not the one partition."""
    cluster = alone(elect_at_start=False)
    assert ask(cluster, request_).error_code == error
    assert cluster.members[1].raft.epoch == 0


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (a_vote(5, end=(-1, 1)), ErrorCode.INVALID_REQUEST),
        (a_vote(5, end=(1, -1)), ErrorCode.INVALID_REQUEST),
        (a_vote(5, end=(1, 5)), ErrorCode.INVALID_REQUEST),
        (a_vote(5, end=(1, 6), pre=True), ErrorCode.INVALID_REQUEST),
        (a_vote(5, replica=-1), ErrorCode.INVALID_REQUEST),
        (a_vote(5, voter_id=2), ErrorCode.INVALID_VOTER_KEY),
        (a_vote(5, to_directory=directory_id(9)), ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_votes_refused_for_what_they_say(request_: vote.VoteRequest, error: ErrorCode) -> None:
    """B-R04, B-R06, inv:R21: negative or impossible positions, no id, addressed to another replica; nothing changes."""
    cluster = alone(elect_at_start=False)
    partition = ask(cluster, request_).topics[0].partitions[0]
    assert (partition.error_code, partition.vote_granted) == (error, False)
    assert cluster.members[1].raft.epoch == 0


def test_an_older_epoch_gets_no_vote() -> None:
    """B-R06: FENCED_LEADER_EPOCH(74)."""
    cluster = alone(elect_at_start=False)
    ask(cluster, a_vote(5))
    assert ask(cluster, a_vote(4)).topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_candidate_that_cannot_win_does_not_put_off_the_elections_of_others() -> None:
    """inv:RL1, B-R18: who waits for an election waits no longer for a later epoch that somebody began in vain."""
    cluster = static_cluster(1, 2, 3)
    cluster.elect()
    cluster.run_for(500)
    for each in (1, 2, 3):
        cluster.stop(each)
    cluster.start(1, elect_at_start=False)
    newest = cluster.members[1].raft.epoch
    waits: list[int] = []
    for epoch in range(newest + 1, newest + 5):
        assert not is_granted(ask(cluster, a_vote(epoch)))
        role = cluster.members[1].raft.role
        assert isinstance(role, Unattached)
        assert role.epoch == epoch
        assert role.election_deadline_ms is not None
        waits.append(role.election_deadline_ms)
    assert waits == sorted(waits, reverse=True)


def test_who_cannot_win_any_more() -> None:
    """B-R18: more refused, or known to be gone, than a majority can spare."""
    assert not cannot_win(voters=3, rejected=1, unreachable=0)
    assert cannot_win(voters=3, rejected=1, unreachable=1)
    assert cannot_win(voters=1, rejected=1, unreachable=0)
    assert not cannot_win(voters=5, rejected=1, unreachable=1)


def test_the_longer_log_then_the_lower_id_goes_first() -> None:
    """B-R18: of two voters that ask at one moment exactly one gives way."""
    near, far = OffsetAndEpoch(5, 1), OffsetAndEpoch(6, 1)
    assert gives_way(near, 1, far, 2)
    assert not gives_way(far, 2, near, 1)
    assert gives_way(near, 2, near, 1)
    assert not gives_way(near, 1, near, 2)


def test_successors_wait_longer_and_longer() -> None:
    """B-R08: the first at once, who is not listed the most."""
    waits = [successor_backoff(each, 4, max_ms=1_000) for each in range(5)]
    assert waits == [0, 100, 200, 400, 1_000]


def test_one_of_three_elects_nobody_and_two_do() -> None:
    """S4-35, S4-38, inv:R22: alone it asks and asks without raising an epoch; with another there is a leader soon."""
    cluster = alone()
    cluster.run_for(30_000)
    assert cluster.members[1].raft.epoch == 0
    assert isinstance(cluster.members[1].raft.role, Unattached | Prospective)
    cluster.start(2)
    began = cluster.now_ms
    cluster.elect(within_ms=3_000)
    assert cluster.now_ms - began < 2 * 1_000


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_all_stop_and_start_in_any_order(order: tuple[int, ...]) -> None:
    """S4-16, S4-36, fault:S5: a leader within 10 s of virtual time, whoever comes first."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"kept"))
    for node_id in order:
        cluster.stop(node_id)
    for node_id in order:
        cluster.start(node_id)
        cluster.run_for(400)
    leader = cluster.elect(within_ms=10_000)
    cluster.run_committed(cluster.offer(leader, b"more"))


@pytest.mark.parametrize("seed", range(30))
def test_a_leader_is_there_within_ten_election_timeouts(seed: int) -> None:
    """B-R18: random timeouts; a split vote is over soon."""
    cluster = static_cluster(1, 2, 3, 4, 5, seed=seed, elect_at_start=False)
    began = cluster.now_ms
    cluster.elect(within_ms=10_000)
    assert cluster.now_ms - began <= 10 * 1_000


def test_a_killed_leader_is_replaced_at_once() -> None:
    """fault:S3: its host refuses connections, so nobody waits for the fetch timeout; told off, everybody does."""
    for elect_on_refused, fastest, slowest in ((True, 0, 300), (False, 1_500, 6_000)):
        cluster = static_cluster(1, 2, 3, elect_on_refused=elect_on_refused)
        leader = cluster.elect()
        cluster.run_committed(cluster.offer(leader, b"x"))
        cluster.run_for(1_000)
        cluster.stop(leader)
        began = cluster.now_ms
        cluster.elect()
        assert fastest <= cluster.now_ms - began <= slowest


def test_a_lost_link_to_the_leader_counts_like_a_refusal() -> None:
    """design: the driver's watch says that the leader is gone; a link to somebody else means nothing."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    other, third = (each for each in (1, 2, 3) if each != leader)
    cluster.step(other, LinkLost(node_id=third, now_ms=cluster.now_ms))
    assert isinstance(cluster.members[other].raft.role, Follower)
    cluster.step(other, LinkLost(node_id=leader, now_ms=cluster.now_ms))
    assert isinstance(cluster.members[other].raft.role, Prospective)


def test_a_silent_leader_is_replaced_after_the_fetch_timeout() -> None:
    """B-R02, B-R16, inv:R14, defect:K6, fault:S20: the others wait the fetch timeout, the cut leader 1.5 of it and resigns."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    cluster.isolate(leader)
    began = cluster.now_ms
    cluster.run_until(lambda: any(each != leader for each in cluster.leaders()), within_ms=10_000)
    assert cluster.now_ms - began <= 2 * 2_000
    cluster.run_until(lambda: not isinstance(cluster.members[leader].raft.role, Leader))
    assert cluster.now_ms - began <= 3_100
    assert cluster.members[leader].raft.epoch < max(cluster.members[each].raft.epoch for each in (1, 2, 3))
    cluster.heal()
    cluster.run_committed(cluster.offer(cluster.elect(), b"y"))


def test_a_node_that_was_cut_off_disturbs_nobody_when_it_comes_back() -> None:
    """B-R27, inv:R22, defect: without pre-vote its raised epoch would depose the leader."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    cut_off = next(each for each in (1, 2, 3) if each != leader)
    cluster.isolate(cut_off)
    cluster.run_for(20_000)
    epoch = cluster.members[leader].raft.epoch
    cluster.heal()
    cluster.run_committed(cluster.offer(leader, b"y"))
    assert cluster.leaders() == [leader]
    assert cluster.members[leader].raft.epoch == epoch


def test_a_peer_without_pre_vote_is_taken_to_agree() -> None:
    """B-R04, B-R27: UNSUPPORTED_VERSION of a pre-vote; the vote itself decides."""
    node = static_cluster(1, 2, 3, elect_at_start=False).members[1].raft
    node.step(TimeAdvanced(now_ms=1_000_000))
    effects = node.step(TimeAdvanced(now_ms=1_000_001))
    before: Role = node.role
    assert isinstance(before, Prospective)
    effects += node.step(RaftRequestFailed(correlation=2, failure=SendFailure.UNSUPPORTED_VERSION, now_ms=1_000_002))
    assert isinstance(node.role, Candidate)
    stored = QuorumState(leader_epoch=1, voted_id=1)
    assert [each.state for each in effects if isinstance(each, StoreQuorumState)] == [stored]
    effects = node.step(QuorumStateStored(state=stored, now_ms=1_000_003))
    asked = [each.request for each in effects if isinstance(each, SendRaftRequest)]
    assert [each.voter_id for each in asked if isinstance(each, vote.VoteRequest)] == [2, 3]


def test_a_peer_without_pre_vote_that_refused_before_is_there_again() -> None:
    """B-R27, inv:RL1: the candidate asks it for its vote; else it would give up each epoch at once, and begin the next."""
    node = static_cluster(1, 2, 3, elect_at_start=False).members[1].raft
    now = 1_000_000
    refused: set[int] = set()
    stored = None
    while stored is None:
        now += 10
        for each in node.step(TimeAdvanced(now_ms=now)):
            if isinstance(each, SendRaftRequest):
                is_there = refused == {2, 3} and isinstance(each.request, vote.VoteRequest)
                failure = SendFailure.UNSUPPORTED_VERSION if is_there else SendFailure.REFUSED
                if isinstance(each.request, vote.VoteRequest):
                    refused.add(each.to.node_id)
                effects = node.step(RaftRequestFailed(correlation=each.correlation, failure=failure, now_ms=now))
                stored = next((each.state for each in effects if isinstance(each, StoreQuorumState)), stored)
    effects = node.step(QuorumStateStored(state=stored, now_ms=now))
    asked = [each.request for each in effects if isinstance(each, SendRaftRequest)]
    assert [each.voter_id for each in asked if isinstance(each, vote.VoteRequest)] == [3]
    assert isinstance(node.role, Candidate)


def begin(leader: int, epoch: int, **changes: Any) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """`leader` says that it leads."""
    wanted: dict[str, Any] = {"cluster_id": CLUSTER_ID, "voter_id": 1, "to_directory": ZERO_UUID, **changes}
    partition = begin_quorum_epoch.RequestPartitionData(
        leader_id=leader, leader_epoch=epoch, voter_directory_id=wanted["to_directory"]
    )
    topic = begin_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=wanted["cluster_id"], voter_id=wanted["voter_id"], topics=(topic,)
    )


def test_a_leader_that_shows_itself_is_followed() -> None:
    """B-R07, B-R20, B-R21, inv:R21: a higher epoch is adopted; another cluster, another receiver, an older epoch change nothing."""
    cluster = alone(elect_at_start=False)
    assert ask(cluster, begin(2, 5, cluster_id="another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    for wrong in (begin(2, 5, voter_id=3), begin(2, 5, to_directory=directory_id(9))):
        assert ask(cluster, wrong).topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
    assert cluster.members[1].raft.epoch == 0
    partition = ask(cluster, begin(2, 5)).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (ErrorCode.NONE, 2, 5)
    role = cluster.members[1].raft.role
    assert isinstance(role, Follower)
    assert (role.leader_id, role.leader_end_points) == (2, (end_point(2),))
    assert cluster.members[1].state.leader_id == 2
    assert ask(cluster, begin(3, 4)).topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_resigning_leader_names_who_is_to_follow() -> None:
    """B-R08: the first successor asks for votes at once; so a clean stop costs much less than the fetch timeout."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    cluster.run_for(600)
    cluster.step(leader, ShutdownBegan(now_ms=cluster.now_ms))
    began = cluster.now_ms
    assert not cluster.members[leader].raft.is_farewell_over
    cluster.run_until(lambda: any(each != leader for each in cluster.leaders()), within_ms=5_000)
    assert cluster.now_ms - began < 200
    assert cluster.members[leader].raft.is_farewell_over
    assert cluster.sent["EndQuorumEpochRequest"] >= 2


@pytest.mark.parametrize(("successors", "wait"), [((1,), 0), ((3, 1), 100), ((3, 4), 1_000)])
def test_the_place_among_the_successors_decides_when_to_stand(successors: tuple[int, ...], wait: int) -> None:
    """B-R08: listed second it waits 100 ms, not listed the whole backoff; v0 names ids only."""
    cluster = alone(elect_at_start=False, elect_on_refused=False)
    ask(cluster, begin(2, 5))
    partition = end_quorum_epoch.RequestPartitionData(leader_id=2, leader_epoch=5, preferred_successors=successors)
    topic = end_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(partition,))
    began = cluster.now_ms
    ask(cluster, end_quorum_epoch.EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,)))
    node = cluster.members[1].raft
    cluster.run_until(lambda: isinstance(node.role, Prospective), within_ms=2_000)
    assert cluster.now_ms - began == wait


def test_a_controller_with_a_fault_gives_leadership_away() -> None:
    """B-R02, B-R08: ResignRequested; another leads soon, the resigned node follows."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    epoch = cluster.members[leader].raft.epoch
    cluster.step(leader, ResignRequested(epoch=epoch, now_ms=cluster.now_ms))
    assert cluster.members[leader].raft.role.epoch == epoch
    next_leader = cluster.elect()
    assert next_leader != leader
    cluster.run_committed(cluster.offer(next_leader, b"y"))
    assert isinstance(cluster.members[leader].raft.role, Follower)


def test_a_voter_with_a_later_epoch_brings_the_others_there() -> None:
    """B-R20: its votes, and its response to BeginQuorumEpoch, say so; else it could never follow."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    epoch = cluster.members[leader].raft.epoch
    other = next(each for each in (1, 2, 3) if each != leader)
    for later in (3, 1 << 30):
        cluster.stop(other)
        cluster.members[other].state = QuorumState(leader_epoch=epoch + later)
        cluster.start(other)
        cluster.run_until(lambda: cluster.members[other].raft.leader_id >= 0, within_ms=10_000)
        assert cluster.members[other].raft.epoch > epoch + later
        cluster.run_committed(cluster.offer(cluster.elect(), b"y"))


def test_who_is_refused_by_the_leader_itself_follows_it_and_fetches_at_once() -> None:
    """B-R27: back to what it was, in the same step; else nobody would wake it again."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    other = next(each for each in (1, 2, 3) if each != leader)
    cluster.step(other, LinkLost(node_id=leader, now_ms=cluster.now_ms))
    cluster.run_for(1_000)
    assert isinstance(cluster.members[other].raft.role, Follower)
    cluster.run_committed(cluster.offer(leader, b"y"))
    assert cluster.leaders() == [leader]


class Telling(RaftCluster):
    """Notes whom leaders tell of their epoch, and when; answers in the place of the voter `mute`, which fetches nothing."""

    def __init__(self, *node_ids: int) -> None:
        self.told: list[tuple[int, int]] = []
        self.mute = -1
        super().__init__(*(config(each, static(*node_ids)) for each in node_ids))

    def _send(self, source: int, effect: SendRaftRequest) -> None:
        request = effect.request
        if isinstance(request, begin_quorum_epoch.BeginQuorumEpochRequest):
            self.told.append((self.now_ms, request.voter_id))
            if request.voter_id == self.mute:
                answer = begin_quorum_epoch.BeginQuorumEpochResponse()
                self._later(1, "respond", source, self.members[source].run, effect.correlation, answer)
                return
        super()._send(source, effect)


def test_a_voter_that_does_not_fetch_is_told_again_and_again() -> None:
    """B-R07: every voter at the election; then, every half fetch timeout, who does not fetch."""
    cluster = Telling(1, 2, 3)
    leader = cluster.elect()
    other, mute = (each for each in (1, 2, 3) if each != leader)
    assert {voter_id for _, voter_id in cluster.told} == {other, mute}
    cluster.run_for(2_000)
    cluster.stop(mute)
    cluster.mute = mute
    cluster.told.clear()
    cluster.run_for(10_000)
    assert {voter_id for _, voter_id in cluster.told} == {mute}
    times = [at for at, _ in cluster.told]
    assert len(times) >= 9
    assert {later - earlier for earlier, later in pairwise(times)} == {1_001}  # half of 2,000 ms after the answer


@pytest.mark.parametrize("is_fetching", [True, False])
def test_a_voter_that_fetches_a_snapshot_keeps_its_leader(*, is_fetching: bool) -> None:
    """B-R16: FetchSnapshot shows that it lives as Fetch does; without either the leader of two resigns."""
    cluster = static_cluster(1, 2)
    leader = cluster.elect()
    epoch = cluster.members[leader].raft.epoch
    cluster.run_committed(cluster.offer(leader, b"x"))
    cluster.members[leader].snapshots.put(OffsetAndEpoch(1, epoch), b"0123456789")
    cluster.stop(3 - leader)
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=epoch, snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=1, epoch=epoch)
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=NAME, partitions=(partition,))
    asked = fetch_snapshot.FetchSnapshotRequest(
        cluster_id=CLUSTER_ID, replica_id=3 - leader, max_bytes=1, topics=(topic,)
    )
    for _ in range(10):
        cluster.run_for(500)
        if is_fetching:
            cluster.ask(leader, asked)
    assert isinstance(cluster.members[leader].raft.role, Leader) is is_fetching
