"""Quorums that get forged packets: no packet ends a quorum, or moves its epoch further than an honest election could (promise PR8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from headrace.core.ids import Uuid
from headrace.raft.epoch_limits import EPOCHS_KEPT, LAST_EPOCH, MAX_EPOCHS_AHEAD, EpochsTold, furthest_in_request
from headrace.raft.events import QuorumState
from headrace.raft.roles import Follower, Leader
from headrace.wire.messages import vote
from tests.support.forged_packets import FORGERIES, NAME, forged_begin, forged_vote
from tests.support.raft_cluster import (
    RaftCluster,
    directory_id,
    dynamic_cluster,
    remove_voter,
    static_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Callable

WITHIN_MS: Final = 15_000
"""So soon, on virtual time, a quorum elects and commits after a packet: two fetch timeouts and a few elections."""

QUORUMS: Final[dict[str, Callable[[], RaftCluster]]] = {
    "static": lambda: static_cluster(1, 2, 3),
    "dynamic": lambda: dynamic_cluster(1, 2, 3),
}
SENDERS: Final = {
    "a voter": (2, directory_id(2)),
    "no voter": (9, directory_id(9)),
    "another disk": (2, directory_id(9)),
}
EPOCHS: Final = {
    "next": 1,
    "near": MAX_EPOCHS_AHEAD,
    "far": MAX_EPOCHS_AHEAD + 1,
    "half": 1 << 30,
    "last": LAST_EPOCH,
}


def running(name: str) -> tuple[RaftCluster, int]:
    """A quorum of three with a leader and a committed record; who leads."""
    cluster = QUORUMS[name]()
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"before"))
    cluster.run_for(600)
    return cluster, leader


def commit(cluster: RaftCluster) -> None:
    """The quorum elects, and all of it commits a record, soon."""
    before = cluster.now_ms
    leader = cluster.elect(within_ms=WITHIN_MS)
    cluster.run_committed(cluster.offer(leader, b"after"), within_ms=WITHIN_MS)
    assert cluster.now_ms - before < WITHIN_MS
    cluster.check_logs()


def epochs(cluster: RaftCluster) -> set[int]:
    """The epochs that running nodes are in."""
    return {each.node.epoch for each in cluster.members.values() if each.node is not None}


@pytest.mark.parametrize("epoch", EPOCHS)
@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("kind", FORGERIES)
@pytest.mark.parametrize("quorum", QUORUMS)
def test_a_quorum_goes_on_after_any_forged_packet(quorum: str, kind: str, sender: str, epoch: str) -> None:
    """promise:PR8, B-R20: to the leader, to a follower, to all: it elects and commits within seconds, and has epochs left."""
    cluster, leader = running(quorum)
    others = [each for each in (1, 2, 3) if each != leader]
    for targets in ((leader,), others[:1], (1, 2, 3)):
        before = max(epochs(cluster))
        claimed = min(before + EPOCHS[epoch], LAST_EPOCH)
        for target in targets:
            cluster.ask(target, FORGERIES[kind](*SENDERS[sender], claimed))
        commit(cluster)
        assert max(epochs(cluster)) <= before + MAX_EPOCHS_AHEAD + 8


IMPOSSIBLE: Final = [
    *((quorum, kind, "no voter") for quorum in QUORUMS for kind in ("vote", "pre-vote", "begin", "end")),
    *(("dynamic", kind, "another disk") for kind in ("vote", "pre-vote")),
]
"""A static voter may be of any directory; who begins or ends an epoch does not say of which one it is."""


@pytest.mark.parametrize(("quorum", "kind", "sender"), IMPOSSIBLE)
def test_an_impossible_sender_moves_no_epoch(quorum: str, kind: str, sender: str) -> None:
    """promise:PR8, B-R20: an id that is no voter, or a voter's id with another directory."""
    cluster, leader = running(quorum)
    before = epochs(cluster)
    for target in (1, 2, 3):
        cluster.ask(target, FORGERIES[kind](*SENDERS[sender], max(before) + 1))
    cluster.run_for(5_000)
    assert (epochs(cluster), cluster.leaders()) == (before, [leader])


@pytest.mark.parametrize("kind", ["fetch", "fetch snapshot"])
@pytest.mark.parametrize("epoch", EPOCHS)
def test_a_reader_with_a_later_epoch_deposes_nobody(kind: str, epoch: str) -> None:
    """B-R20: it is answered UNKNOWN_LEADER_EPOCH, as by Kafka, whoever it says it is."""
    cluster, leader = running("static")
    before = epochs(cluster)
    answer = cluster.answer(leader, FORGERIES[kind](2, directory_id(2), min(max(before) + EPOCHS[epoch], LAST_EPOCH)))
    topics = answer.responses if kind == "fetch" else answer.topics
    assert topics[0].partitions[0].error_code == 75
    cluster.run_for(5_000)
    assert (epochs(cluster), cluster.leaders()) == (before, [leader])


def test_a_forged_leader_of_the_next_epoch_does_not_keep_a_voter_from_the_real_one() -> None:
    """inv:R1, RL1, promise:PR8: one voter believes a forged claim, the others elect somebody else in that epoch, and nobody stops."""
    for seed in range(20):
        cluster = static_cluster(1, 2, 3, seed=seed)
        leader = cluster.elect()
        cluster.run_committed(cluster.offer(leader, b"before"))
        deceived, other = (each for each in (1, 2, 3) if each != leader)
        epoch = cluster.members[leader].raft.epoch
        cluster.stop(leader)
        cluster.ask(deceived, forged_begin(leader, directory_id(leader), epoch + 1))
        cluster.run_for(300)
        cluster.start(leader)
        cluster.ask(deceived, forged_begin(other, directory_id(other), max(epochs(cluster)) + 1))
        commit(cluster)


def test_a_quorum_whose_disks_hold_the_last_but_some_epochs_goes_on() -> None:
    """promise:PR8: what an earlier packet left behind; also a voter that was away the whole time comes back."""
    late = LAST_EPOCH - 100
    cluster = static_cluster(1, 2, 3)
    for each in (1, 2, 3):
        cluster.stop(each)
    for each in (1, 2):
        cluster.members[each].state = QuorumState(leader_epoch=late)
        cluster.start(each)
    leader = cluster.elect(within_ms=WITHIN_MS)
    cluster.run_committed(cluster.offer(leader, b"x"), 1, 2)
    cluster.start(3)
    commit(cluster)
    assert all(late < each < late + 20 for each in epochs(cluster))
    before = max(epochs(cluster))
    cluster.ask(leader, forged_vote(2, directory_id(2), before + 2))
    assert max(epochs(cluster)) == before


def test_a_voter_with_the_last_epoch_takes_nobody_with_it() -> None:
    """promise:PR8: its quorum-state is rotten; it says so in each response, and cannot stand itself; two others are enough."""
    cluster = static_cluster(1, 2, 3)
    cluster.stop(3)
    cluster.members[3].state = QuorumState(leader_epoch=LAST_EPOCH)
    cluster.start(3)
    cluster.run_for(20_000)
    [leader] = cluster.leaders()
    cluster.run_committed(cluster.offer(leader, b"x"), 1, 2)
    assert (cluster.members[3].raft.epoch, max(cluster.members[each].raft.epoch for each in (1, 2)) < 100) == (
        LAST_EPOCH,
        True,
    )


def test_a_voter_that_was_away_for_long_hears_from_the_others_how_far_they_are() -> None:
    """B-R20: what the voters that it asks say may be far ahead; whether it was a follower, or away while they had no leader."""
    for seed in range(10):
        cluster = static_cluster(1, 2, 3, seed=seed)
        leader = cluster.elect()
        cluster.run_committed(cluster.offer(leader, b"x"))
        away = next(each for each in (1, 2, 3) if each != leader)
        for each in (1, 2, 3):
            cluster.stop(each)
        far = cluster.members[leader].state.leader_epoch + 1_000
        for each in {1, 2, 3} - {away}:
            cluster.members[each].state = QuorumState(leader_epoch=far)
        cluster.start(away)
        cluster.run_for(2_000)
        cluster.start(leader)  # only the two of them: the one that was away must vote, or be elected
        commit(cluster)


def test_a_replica_that_became_voter_unknown_to_this_one_is_elected_by_it() -> None:
    """KIP-853: it holds the record that names it, and no leader serves this node; else those who remain could elect nobody."""
    cluster = dynamic_cluster(1, 2, 3, observers=(4,))
    member = cluster.members[3]
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    end = member.raft.log_end
    epoch = member.raft.epoch
    cluster.stop(1)
    cluster.stop(2)
    cluster.stop(4)
    if isinstance(member.raft.role, Leader):
        cluster.stop(3)
        cluster.start(3)
    cluster.run_for(10_000)
    asked = vote.RequestPartitionData(
        replica_epoch=member.raft.epoch + 1,
        replica_id=4,
        replica_directory_id=directory_id(4),
        last_offset=end + 1,
        last_offset_epoch=epoch,
    )
    request = vote.VoteRequest(topics=(vote.RequestTopicData(topic_name=NAME, partitions=(asked,)),))
    assert cluster.answer(3, request).topics[0].partitions[0].vote_granted


def test_a_follower_that_is_served_gives_no_vote_to_a_removed_voter() -> None:
    """KIP-853, B-R20: it does not know that it was removed, and would depose one leader after the other."""
    cluster = dynamic_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    member = next(each for each in cluster.members.values() if isinstance(each.raft.role, Follower))
    epoch = member.raft.epoch
    cluster.ask(member.config.node_id, forged_vote(7, Uuid(bytes(15) + b"\x07"), epoch + 1))
    assert member.raft.epoch == epoch


@pytest.mark.parametrize(
    ("own", "furthest"),
    [
        (0, MAX_EPOCHS_AHEAD),
        (1 << 30, (1 << 30) + MAX_EPOCHS_AHEAD),
        (LAST_EPOCH - EPOCHS_KEPT - 2, LAST_EPOCH - EPOCHS_KEPT),
        (LAST_EPOCH - EPOCHS_KEPT, LAST_EPOCH - EPOCHS_KEPT + 1),
        (LAST_EPOCH - 1, LAST_EPOCH),
        (LAST_EPOCH, LAST_EPOCH),
    ],
)
def test_requests_reach_a_few_epochs_ahead_and_near_the_end_of_all_one(own: int, furthest: int) -> None:
    """promise:PR8: each packet uses up so few that the epochs cannot run out."""
    assert furthest_in_request(own) == furthest


def test_the_end_of_all_epochs_is_believed_of_a_majority_only() -> None:
    """promise:PR8: one voter's response moves this one far, but leaves a million epochs."""
    told = EpochsTold()
    ceiling = LAST_EPOCH - EPOCHS_KEPT
    assert told.is_believed(ceiling, others=(2, 3), majority=2)
    told.note(2, LAST_EPOCH)
    assert not told.is_believed(LAST_EPOCH, others=(2, 3), majority=2)
    told.note(3, LAST_EPOCH - 1)
    assert not told.is_believed(LAST_EPOCH, others=(2, 3), majority=2)
    assert told.is_believed(LAST_EPOCH - 1, others=(2, 3), majority=2)


def test_an_observer_that_is_served_is_not_moved_by_an_impossible_sender() -> None:
    """promise:PR8: it would be ahead of the quorum, and follow nobody until that gets there."""
    cluster = dynamic_cluster(1, 2, 3, observers=(4,))
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    epoch = cluster.members[4].raft.epoch
    cluster.ask(4, forged_vote(9, directory_id(9), epoch + 1))
    cluster.ask(4, forged_begin(9, directory_id(9), epoch + 1))
    assert cluster.members[4].raft.epoch == epoch


def test_who_is_no_voter_is_moved_by_responses_only() -> None:
    """promise:PR8: ahead of the voters it would follow nobody; but it votes for who needs its vote, once it heard in which epoch they are (KIP-853)."""
    cluster = dynamic_cluster(1, 2, 3, observers=(4,))
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    observer = cluster.members[4]
    for each in (1, 2, 3):
        cluster.stop(each)
    cluster.run_for(5_000)
    epoch = observer.raft.epoch
    for forge in ("vote", "pre-vote", "begin", "end"):
        cluster.ask(4, FORGERIES[forge](1, directory_id(1), epoch + 1))
    assert observer.raft.epoch == epoch
    cluster.members[1].state = QuorumState(leader_epoch=epoch + 1, voted_id=1, voted_directory_id=directory_id(1))
    cluster.start(1)
    cluster.run_until(lambda: observer.raft.epoch == epoch + 1, within_ms=WITHIN_MS)
    asked = forged_vote(1, directory_id(1), epoch + 1)
    assert cluster.answer(4, asked).topics[0].partitions[0].vote_granted


def test_a_voter_that_was_removed_while_it_was_ahead_finds_its_way_back() -> None:
    """RL4, KIP-853: it does not know of its removal; the others know that it was a voter, and go to its epoch."""
    cluster = dynamic_cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"x"))
    removed = next(each for each in (1, 2, 3) if each != leader)
    cluster.stop(removed)
    cluster.members[removed].state = QuorumState(leader_epoch=cluster.members[leader].raft.epoch + 1)
    assert cluster.answer(leader, remove_voter(removed)).error_code == 0
    cluster.start(removed)
    commit(cluster)
    assert not cluster.members[removed].raft.is_voter
