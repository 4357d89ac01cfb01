"""What does a node remember of its peers, its disk and its clock while its quorum node works?"""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.peers import Destination, SendFailure
from headrace.node.witness import MAX_LINKS, Flushes, QuorumWitness, asker_of, error_in
from headrace.raft.events import (
    AnswerRaftRequest,
    FlushLog,
    HighWatermarkAdvanced,
    LogFlushed,
    QuorumState,
    QuorumStateStored,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    SendRaftRequest,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.wire.messages import begin_quorum_epoch, fetch, fetch_snapshot, vote
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest

TWO = Destination(2, "two", 9093)
TICK = TimeAdvanced(now_ms=0)


def sent(correlation: int, to: Destination = TWO) -> SendRaftRequest:
    return SendRaftRequest(correlation=correlation, to=to, request=vote.VoteRequest(), timeout_ms=1_000)


def answered(correlation: int, code: int = 0) -> RaftResponseArrived:
    return RaftResponseArrived(correlation=correlation, response=vote.VoteResponse(error_code=code), now_ms=0)


def fetch_of(replica_id: int, offset: int) -> fetch.FetchRequest:
    topic = fetch.FetchTopic(partitions=(fetch.FetchPartition(fetch_offset=offset),))
    return fetch.FetchRequest(replica_state=fetch.ReplicaState(replica_id=replica_id), topics=(topic,))


def test_an_answer_ends_a_failure() -> None:
    """S4-54: since when a link fails counts from its first failure; an answer ends it."""
    seen = QuorumWitness()
    for now_ms, correlation in ((10, 1), (20, 2)):
        seen.saw(TICK, [sent(correlation)], now_ms)
        failed = RaftRequestFailed(correlation=correlation, failure=SendFailure.REFUSED, now_ms=0)
        seen.saw(failed, [], now_ms + 5)
    (link,) = seen.links.values()
    assert (link.peer_id, link.host, link.port) == TWO
    assert (link.failing_since_ms, link.failed_ms, link.failure) == (15, 25, "REFUSED")
    seen.saw(TICK, [sent(3)], 30)
    seen.saw(answered(3), [], 31)
    assert (link.answered_ms, link.failing_since_ms, link.failed_ms) == (31, -1, 25)


def test_usual_refusals_are_not_worth_telling() -> None:
    """S1-28: that another node leads is usual; that it belongs to another cluster is not."""
    seen = QuorumWitness()
    seen.saw(TICK, [sent(1), sent(2)], 1)
    seen.saw(answered(1, ErrorCode.NOT_LEADER_OR_FOLLOWER), [], 2)
    (link,) = seen.links.values()
    assert link.refused_ms == -1
    seen.saw(answered(2, ErrorCode.INCONSISTENT_CLUSTER_ID), [], 3)
    assert (link.refused_ms, link.refusal_code, link.refused_api) == (3, ErrorCode.INCONSISTENT_CLUSTER_ID, 52)


def test_answers_to_nobodys_question_are_ignored() -> None:
    """S4-54."""
    seen = QuorumWitness()
    seen.saw(answered(9), [], 1)
    seen.saw(RaftRequestFailed(correlation=8, failure=SendFailure.TIMED_OUT, now_ms=0), [], 1)
    assert seen.links == {}


def test_who_asks_us_lives_and_says_how_far_it_is() -> None:
    """S4-36, S4-49: also what it was told, if that is unusual."""
    seen = QuorumWitness()
    event = RaftRequestArrived(token=4, request=fetch_of(3, 77), api_version=17, listener="C", now_ms=0)
    refusal = fetch.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    seen.saw(event, [AnswerRaftRequest(token=4, response=refusal)], 50)
    (link,) = seen.links.values()
    assert (link.peer_id, link.heard_ms, link.fetched_ms, link.log_end_offset) == (3, 50, 50, 77)
    assert (link.told_ms, link.told_code, link.told_api) == (50, ErrorCode.INCONSISTENT_CLUSTER_ID, 1)


@pytest.mark.parametrize(
    ("request_", "asker"),
    [
        (vote.VoteRequest(topics=(vote.RequestTopicData(partitions=(vote.RequestPartitionData(replica_id=4),)),)), 4),
        (
            begin_quorum_epoch.BeginQuorumEpochRequest(
                topics=(
                    begin_quorum_epoch.RequestTopicData(
                        partitions=(begin_quorum_epoch.RequestPartitionData(leader_id=5),)
                    ),
                )
            ),
            5,
        ),
        (fetch_of(6, 0), 6),
        (fetch.FetchRequest(), -1),
        (fetch_snapshot.FetchSnapshotRequest(replica_id=7), 7),
        (UpdateRaftVoterRequest(voter_id=8), 8),
        (DescribeQuorumRequest(), -1),
    ],
)
def test_who_asks(request_: object, asker: int) -> None:
    """S4-09: the node id is the voter id; a tool has none."""
    assert asker_of(request_) == asker


def test_an_error_is_found_where_it_stands() -> None:
    """B-W05: in the whole, or in the first partition."""
    part = vote.ResponsePartitionData(error_code=ErrorCode.INVALID_VOTER_KEY)
    nested = vote.VoteResponse(topics=(vote.ResponseTopicData(partitions=(part,)),))
    assert [error_in(each) for each in (vote.VoteResponse(error_code=7), nested, vote.VoteResponse())] == [
        7,
        ErrorCode.INVALID_VOTER_KEY,
        0,
    ]


def test_syncs_are_measured_from_order_to_end() -> None:
    """S4-60: last, longest and average; one that runs since when."""
    seen = QuorumWitness()
    for began, ended in ((10, 30), (100, 160)):
        seen.saw(TICK, [FlushLog()], began)
        assert seen.flushes.began_ms == began
        seen.saw(LogFlushed(upto=1, now_ms=0), [], ended)
    flushes = seen.flushes
    assert (flushes.count, flushes.last_ms, flushes.max_ms, flushes.average_ms, flushes.began_ms) == (
        2,
        60,
        60,
        40.0,
        -1,
    )
    seen.saw(TICK, [StoreQuorumState(state=QuorumState())], 200)
    seen.saw(QuorumStateStored(state=QuorumState(), now_ms=0), [], 207)
    assert seen.state_stores.last_ms == 7


def test_a_sync_that_nobody_ordered_counts_for_nothing() -> None:
    """S4-60."""
    flushes = Flushes()
    flushes.ended(5)
    assert flushes.count == 0


def test_since_when_something_waits_to_be_committed() -> None:
    """B-R14: from the first record behind the high watermark; each move of it begins anew, or ends it."""
    seen = QuorumWitness()
    seen.saw(TICK, [FlushLog()], 10)
    seen.saw(LogFlushed(upto=1, now_ms=0), [FlushLog()], 20)
    assert seen.uncommitted_since_ms == 10
    seen.saw(TICK, [HighWatermarkAdvanced(to=1)], 25)
    assert seen.uncommitted_since_ms == 25
    seen.saw(LogFlushed(upto=2, now_ms=0), [HighWatermarkAdvanced(to=2)], 30)
    assert seen.uncommitted_since_ms == -1


def test_last_words_are_kept_and_bounded() -> None:
    """fault:S59: what a node said before it stopped."""
    seen = QuorumWitness()
    seen.heard_last_words(3, "x" * 9_999, 7)
    (link,) = seen.links.values()
    assert (link.peer_id, len(link.last_words), link.last_words_ms) == (3, 2_000, 7)


def test_a_clock_that_jumps_is_seen() -> None:
    """fault:S40: a step of a second or more between two looks; drift in between is none."""
    seen = QuorumWitness()
    for now_ms, wall_ms in ((0, 5_000), (10, 5_010), (20, 5_900)):
        seen.looked_at_clocks(wall_ms=wall_ms, now_ms=now_ms)
    assert seen.clock_jumped_ms == -1
    seen.looked_at_clocks(wall_ms=5_910 - 60_000, now_ms=30)
    assert (seen.clock_jump_ms, seen.clock_jumped_ms) == (-60_000, 30)


def test_memory_is_bounded() -> None:
    """B-W06: whoever makes up node ids makes the oldest forgotten."""
    seen = QuorumWitness()
    for number in range(MAX_LINKS + 50):
        seen.heard_last_words(number, "w", number)
    assert len(seen.links) == MAX_LINKS
    assert (0, "", -1) not in seen.links
