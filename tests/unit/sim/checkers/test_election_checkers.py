"""Made-up elections: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID
from headrace.raft.events import QuorumState, RaftResponseArrived
from headrace.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from headrace.sim.checkers.elections import Elections
from headrace.sim.observation import MachineStep, QuorumStateDurable, Received, RequestSent, ResponseSent
from headrace.wire.messages import begin_quorum_epoch, fetch, vote
from tests.support.histories import Story, breaks, directory, voter_set


def _leader(epoch: int, start: int = 0) -> Leader:
    return Leader(epoch=epoch, epoch_start_offset=start, granting_voters=(1, 2))


def _vote_request(candidate: int, epoch: int, *, pre_vote: bool = False) -> vote.VoteRequest:
    part = vote.RequestPartitionData(replica_epoch=epoch, replica_id=candidate, pre_vote=pre_vote)
    return vote.VoteRequest(voter_id=1, topics=(vote.RequestTopicData(partitions=(part,)),))


def _vote_response(epoch: int, *, granted: bool = True, leader_id: int = -1) -> vote.VoteResponse:
    part = vote.ResponsePartitionData(leader_id=leader_id, leader_epoch=epoch, vote_granted=granted)
    return vote.VoteResponse(topics=(vote.ResponseTopicData(partitions=(part,)),))


def _granted_by(node_id: int, epoch: int) -> tuple[Received, MachineStep]:
    response = _vote_response(epoch)
    received = Received(node_id, 1, is_request=False, message=response, api_version=2)
    return received, MachineStep("raft", RaftResponseArrived(correlation=1, response=response, now_ms=0), [])


def _story() -> Story:
    return Story(Elections)


# R1, R13


def test_two_leaders_of_one_epoch_are_flagged() -> None:
    """inv:R1."""
    story = _story()
    story.step(1, role=_leader(1))
    with breaks("R1"):
        story.step(2, role=_leader(1))


def test_leaders_of_different_epochs_are_fine() -> None:
    """inv:R1: also when the old one still thinks that it leads."""
    story = _story()
    story.step(1, role=_leader(1))
    story.step(2, role=_leader(2))


def test_a_leader_that_leads_its_epoch_again_after_a_restart_is_flagged() -> None:
    """inv:R13, defect:K3."""
    story = _story()
    story.step(1, role=_leader(1))
    story.crash(1)
    story.start(1, role=Unattached(epoch=1))
    with breaks("R13"):
        story.step(1, role=_leader(1))


def test_a_leader_that_takes_a_new_epoch_after_a_restart_is_fine() -> None:
    """inv:R13."""
    story = _story()
    story.step(1, role=_leader(1))
    story.crash(1)
    story.start(1, role=Unattached(epoch=1))
    story.step(1, role=_leader(2))


# R2, R4


def test_two_votes_in_one_epoch_are_flagged_over_a_restart() -> None:
    """inv:R2: the disk forgets the first one, so that the node itself cannot know."""
    story = _story()
    story.stores(3, 1, voted_id=1)
    story.step(3, ResponseSent(1, _vote_request(1, 1), _vote_response(1)))
    story.crash(3)
    story.start(3, stored=QuorumState(leader_epoch=1), role=Unattached(epoch=1))
    story.stores(3, 1, voted_id=2)
    with breaks("R2"):
        story.step(3, ResponseSent(2, _vote_request(2, 1), _vote_response(1)))


def test_the_same_vote_twice_and_votes_in_two_epochs_are_fine() -> None:
    """inv:R2: a repeated request is answered alike."""
    story = _story()
    story.stores(3, 1, voted_id=1)
    story.step(3, ResponseSent(1, _vote_request(1, 1), _vote_response(1)))
    story.step(3, ResponseSent(1, _vote_request(1, 1), _vote_response(1)))
    story.stores(3, 2, voted_id=2)
    story.step(3, ResponseSent(2, _vote_request(2, 2), _vote_response(2)))


def test_pre_votes_for_two_candidates_are_fine() -> None:
    """inv:R2: pre-votes don't count."""
    story = _story()
    for candidate in (1, 2):
        story.step(3, ResponseSent(candidate, _vote_request(candidate, 0, pre_vote=True), _vote_response(0)))


def test_a_second_vote_that_is_stored_in_one_epoch_is_flagged() -> None:
    """inv:R2."""
    story = _story()
    story.stores(3, 1, voted_id=1)
    with breaks("R2"):
        story.stores(3, 1, voted_id=2)


def test_a_vote_that_leaves_before_it_is_on_disk_is_flagged() -> None:
    """inv:R4, defect:K1."""
    story = _story()
    story.step(3, role=Unattached(epoch=1, voted_id=1))
    with breaks("R4"):
        story.step(3, ResponseSent(1, _vote_request(1, 1), _vote_response(1)))


def test_a_vote_while_only_the_epoch_is_on_disk_is_flagged() -> None:
    """inv:R4."""
    story = _story()
    story.stores(3, 1)
    with breaks("R4"):
        story.step(3, ResponseSent(1, _vote_request(1, 1), _vote_response(1)))


def test_a_refusal_that_tells_an_epoch_not_on_disk_is_flagged() -> None:
    """inv:R4: also without a vote."""
    story = _story()
    story.stores(3, 1)
    with breaks("R4"):
        story.step(3, ResponseSent(1, _vote_request(1, 2), _vote_response(2, granted=False)))


def test_a_fetch_in_an_epoch_not_on_disk_is_flagged() -> None:
    """inv:R4."""
    part = fetch.FetchPartition(current_leader_epoch=2)
    request = fetch.FetchRequest(topics=(fetch.FetchTopic(partitions=(part,)),))
    story = _story()
    story.stores(3, 1, leader_id=1)
    with breaks("R4"):
        story.step(3, RequestSent(1, request, 1))


def test_a_leadership_that_is_told_and_not_on_disk_is_flagged() -> None:
    """inv:R4: the epoch is stored, but neither the own vote nor the leader."""
    part = begin_quorum_epoch.RequestPartitionData(leader_id=1, leader_epoch=1)
    request = begin_quorum_epoch.BeginQuorumEpochRequest(
        topics=(begin_quorum_epoch.RequestTopicData(partitions=(part,)),)
    )
    story = _story()
    story.stores(1, 1, voted_id=2)
    with breaks("R4"):
        story.step(1, RequestSent(2, request, 1))


def test_a_leadership_whose_own_vote_is_on_disk_may_be_told() -> None:
    """inv:R4."""
    part = begin_quorum_epoch.RequestPartitionData(leader_id=1, leader_epoch=1)
    request = begin_quorum_epoch.BeginQuorumEpochRequest(
        topics=(begin_quorum_epoch.RequestTopicData(partitions=(part,)),)
    )
    story = _story()
    story.stores(1, 1, voted_id=1)
    story.step(1, RequestSent(2, request, 1))


# R3


def test_an_epoch_that_falls_in_memory_is_flagged() -> None:
    """inv:R3."""
    story = _story()
    story.step(1, role=Unattached(epoch=3))
    with breaks("R3"):
        story.step(1, role=Unattached(epoch=2))


def test_an_epoch_that_falls_on_disk_is_flagged() -> None:
    """inv:R3."""
    story = _story()
    story.stores(1, 3)
    with breaks("R3"):
        story.stores(1, 2)


def test_a_start_below_the_epoch_that_was_on_disk_is_flagged() -> None:
    """inv:R3: over a restart."""
    story = _story()
    story.stores(1, 3)
    story.crash(1)
    with breaks("R3"):
        story.start(1, role=Unattached(epoch=2))


def test_an_epoch_that_never_was_on_disk_may_be_forgotten() -> None:
    """inv:R3: a crash before the store."""
    story = _story()
    story.stores(1, 3)
    story.step(1, role=Unattached(epoch=4))
    story.crash(1)
    story.start(1, role=Unattached(epoch=3), stored=QuorumState(leader_epoch=3))


def test_a_new_disk_begins_at_epoch_zero() -> None:
    """inv:R3: while it keeps its directory id."""
    story = _story()
    story.stores(1, 3)
    story.crash(1, is_disk_lost=True)
    story.start(1)


# R19


def test_a_candidate_that_is_no_voter_is_flagged() -> None:
    """inv:R19."""
    story = Story(Elections, up=(1, 2, 3, 4))
    with breaks("R19"):
        story.step(4, role=Candidate(epoch=1, election_deadline_ms=0))


def test_a_voter_with_another_disk_is_no_voter_once_directories_count() -> None:
    """inv:R19, KIP-853."""
    story = Story(Elections, voters=voter_set(1, 2, 3, kraft_version=1))
    story.crash(3, is_disk_lost=True)
    story.start(3)
    with breaks("R19"):
        story.step(3, role=Prospective(epoch=0, election_deadline_ms=0))


def test_who_voted_for_another_and_stands_in_the_same_epoch_is_flagged() -> None:
    """inv:R19: by what is on disk, and by what only the node knows yet."""
    story = _story()
    story.stores(1, 1, voted_id=2)
    with breaks("R19"):
        story.step(1, role=Candidate(epoch=1, election_deadline_ms=0))
    story = _story()
    story.step(1, role=Unattached(epoch=1, voted_id=2))
    with breaks("R19"):
        story.step(1, role=Candidate(epoch=1, election_deadline_ms=0))


def test_a_candidacy_that_is_taken_up_again_after_a_restart_is_fine() -> None:
    """inv:R19: the vote on disk is its own."""
    story = _story()
    story.stores(1, 1, voted_id=1)
    story.crash(1)
    stored = QuorumState(leader_epoch=1, voted_id=1)
    story.start(1, stored=stored, role=Candidate(epoch=1, election_deadline_ms=0))


def test_a_follower_of_itself_is_flagged() -> None:
    """inv:R19."""
    story = _story()
    with breaks("R19"):
        story.step(1, role=Follower(epoch=1, leader_id=1))


# R22


def test_an_epoch_raised_without_a_majority_of_pre_votes_is_flagged() -> None:
    """inv:R22."""
    story = _story()
    story.step(1, role=Prospective(epoch=0, election_deadline_ms=0))
    with breaks("R22"):
        story.step(1, role=Candidate(epoch=1, election_deadline_ms=0))


def test_an_epoch_raised_with_a_majority_of_pre_votes_is_fine() -> None:
    """inv:R22: the own one counts."""
    story = _story()
    story.step(1, role=Prospective(epoch=0, election_deadline_ms=0))
    received, _ = _granted_by(2, 0)
    story.step(1, role=Candidate(epoch=1, election_deadline_ms=0), received=received)


def test_pre_votes_of_an_earlier_attempt_do_not_count() -> None:
    """inv:R22: in between, the node heard of a leader."""
    story = Story(Elections, voters=voter_set(1, 2, 3, 4, 5), up=(1, 2, 3, 4, 5))
    story.step(1, role=Prospective(epoch=0, election_deadline_ms=0))
    received, machine = _granted_by(2, 0)
    story.step(1, received=received, machines=[machine])
    story.step(1, role=Follower(epoch=0, leader_id=2))
    story.step(1, role=Prospective(epoch=0, election_deadline_ms=0))
    received, machine = _granted_by(3, 0)
    with breaks("R22"):
        story.step(1, role=Candidate(epoch=1, election_deadline_ms=0), received=received)


def test_the_only_voter_needs_nobody() -> None:
    """inv:R22."""
    story = Story(Elections, voters=voter_set(1), up=(1,))
    story.step(1, QuorumStateDurable(QuorumState()), role=Candidate(epoch=1, election_deadline_ms=0))


def test_a_stored_vote_for_the_same_disk_is_one_vote() -> None:
    """inv:R2: a zero directory id fits any."""
    story = _story()
    story.stores(3, 1, voted_id=1)
    request = _vote_request(1, 1)
    part = vote.RequestPartitionData(replica_epoch=1, replica_id=1, replica_directory_id=directory(1))
    other = vote.VoteRequest(topics=(vote.RequestTopicData(partitions=(part,)),))
    assert request.topics[0].partitions[0].replica_directory_id == ZERO_UUID
    story.step(3, ResponseSent(1, request, _vote_response(1)))
    story.step(3, ResponseSent(1, other, _vote_response(1)))
