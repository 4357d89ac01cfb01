"""What the one voter answers to votes, epochs, fetches, snapshot fetches and questions about the quorum."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.epoch_limits import MAX_EPOCHS_AHEAD
from headrace.raft.events import AnswerRaftRequest, RaftRequestArrived, RecordsOffered, ShutdownBegan, TimeAdvanced
from headrace.raft.replicas import MOST_OBSERVERS
from headrace.raft.requests import MAX_ANSWERS_A_STEP
from headrace.wire.messages import begin_quorum_epoch, describe_quorum, end_quorum_epoch, fetch, fetch_snapshot, vote
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from tests.support.raft import CLUSTER_ID, OTHER_DIRECTORY_ID, RaftBench
from tests.support.raft_cluster import static_cluster

if TYPE_CHECKING:
    from headrace.raft.events import RaftRequest

TOKENS = count(1)
NAME = "__cluster_metadata"


@pytest.fixture
def bench() -> RaftBench:
    """A leader of epoch 1 with two records, at offsets 0 (LeaderChange) and 1."""
    found = RaftBench()
    found.start()
    found.run(RecordsOffered(records=(b"one",), base_offset=1, epoch=1, now_ms=found.now_ms))
    return found


def ask(bench: RaftBench, request: RaftRequest, version: int) -> Any:
    """The answer given at once, or None when the request waits."""
    event = RaftRequestArrived(
        token=next(TOKENS), request=request, api_version=version, listener="CONTROLLER", now_ms=bench.now_ms
    )
    effects = bench.run(event)
    answers = [effect for effect in effects if isinstance(effect, AnswerRaftRequest) and effect.token == event.token]
    assert len(answers) <= 1
    return answers[0].response if answers else None


def a_vote(
    *, cluster_id: str | None = CLUSTER_ID, epoch: int = 2, replica: int = 2, voter: int = -1, pre: bool = False
) -> vote.VoteRequest:
    """Replica 2 wants to lead."""
    partition = vote.RequestPartitionData(
        replica_epoch=epoch, replica_id=replica, last_offset_epoch=1, last_offset=9, pre_vote=pre
    )
    topic = vote.RequestTopicData(topic_name=NAME, partitions=(partition,))
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter, topics=(topic,))


def a_fetch(offset: int = 1, epoch: int = 1, **changes: Any) -> fetch.FetchRequest:
    """Broker 7 reads the log."""
    wanted: dict[str, Any] = {"current_leader_epoch": 1, "partition_max_bytes": 10_000, **changes}
    whole = {name: wanted.pop(name) for name in ("cluster_id", "max_wait_ms", "replica") if name in wanted}
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=epoch, **wanted)
    return fetch.FetchRequest(
        cluster_id=whole.get("cluster_id", CLUSTER_ID),
        max_wait_ms=whole.get("max_wait_ms", 0),
        replica_state=fetch.ReplicaState(replica_id=whole.get("replica", 7), replica_epoch=4),
        topics=(fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def a_snapshot_fetch(
    end_offset: int = 1, *, position: int = 0, epoch: int = 1, cluster_id: str | None = CLUSTER_ID, name: str = NAME
) -> fetch_snapshot.FetchSnapshotRequest:
    """Broker 7 reads a snapshot."""
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=end_offset, epoch=1),
        position=position,
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=name, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(cluster_id=cluster_id, replica_id=7, max_bytes=4, topics=(topic,))


@pytest.mark.parametrize("epoch", [2 + MAX_EPOCHS_AHEAD, (1 << 30) + 1, (1 << 31) - 1])
def test_an_epoch_too_far_ahead_is_unknown_to_every_rpc(bench: RaftBench, epoch: int) -> None:
    """input:B23, B-R20: one packet must not move a node to an epoch after which it can hold no election."""
    begin = begin_quorum_epoch.RequestPartitionData(partition_index=0, leader_id=2, leader_epoch=epoch)
    end = end_quorum_epoch.RequestPartitionData(partition_index=0, leader_id=2, leader_epoch=epoch)
    requests: list[tuple[RaftRequest, int]] = [
        (a_vote(epoch=epoch), 2),
        (
            begin_quorum_epoch.BeginQuorumEpochRequest(
                topics=(begin_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(begin,)),)
            ),
            1,
        ),
        (
            end_quorum_epoch.EndQuorumEpochRequest(
                topics=(end_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(end,)),)
            ),
            1,
        ),
        (a_fetch(current_leader_epoch=epoch), 17),
        (a_snapshot_fetch(epoch=epoch), 1),
        (UpdateRaftVoterRequest(cluster_id=CLUSTER_ID, current_leader_epoch=epoch, voter_id=2), 0),
    ]
    for request, version in requests:
        answer = ask(bench, request, version)
        topics = getattr(answer, "topics", getattr(answer, "responses", ()))
        error = topics[0].partitions[0].error_code if topics else answer.error_code
        assert error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (bench.node.epoch, bench.node.leader_id) == (1, 1)


def test_another_cluster_id_is_refused_by_every_rpc(bench: RaftBench) -> None:
    """S1-28, B-R21: INCONSISTENT_CLUSTER_ID(104) from Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot."""
    other = "AAAAAAAAAAAAAAAAAAAAAg"
    requests: list[tuple[RaftRequest, int]] = [
        (a_vote(cluster_id=other), 2),
        (begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id=other), 1),
        (end_quorum_epoch.EndQuorumEpochRequest(cluster_id=other), 1),
        (a_fetch(cluster_id=other), 17),
        (a_snapshot_fetch(cluster_id=other), 1),
    ]
    for request, version in requests:
        assert ask(bench, request, version).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert ask(bench, a_vote(cluster_id=None, epoch=1, pre=True), 2).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (a_vote(pre=True), ErrorCode.NONE),
        (a_vote(epoch=1, pre=True), ErrorCode.NONE),
        (a_vote(epoch=1), ErrorCode.INVALID_REQUEST),
        (a_vote(epoch=0), ErrorCode.INVALID_REQUEST),
        (a_vote(replica=-1), ErrorCode.INVALID_REQUEST),
        (a_vote(replica=1), ErrorCode.INVALID_REQUEST),
        (a_vote(voter=9), ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_a_leader_gives_no_vote_in_its_epoch(bench: RaftBench, request_: vote.VoteRequest, error: ErrorCode) -> None:
    """B-R06, R21: bad requests and pre-votes; who asks learns who leads, and the leader stays unless the epoch is higher."""
    answer = ask(bench, request_, 2)
    [partition] = answer.topics[0].partitions
    assert partition.error_code == error
    if request_.topics[0].partitions[0].replica_epoch < 2 or error is not ErrorCode.NONE:
        assert not partition.vote_granted
        assert (partition.leader_id, partition.leader_epoch) == (1, 1)
        assert answer.node_endpoints == (vote.NodeEndpoint(node_id=1, host="127.0.0.1", port=9093),)
        assert bench.node.leader_id == 1


def test_a_vote_of_an_older_epoch_is_fenced(bench: RaftBench) -> None:
    """KIP-595: FENCED_LEADER_EPOCH."""
    partition = vote.RequestPartitionData(replica_epoch=0, replica_id=2, pre_vote=True)
    topic = vote.RequestTopicData(topic_name=NAME, partitions=(partition,))
    answer = ask(bench, vote.VoteRequest(topics=(topic,)), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("topics", [(), (vote.RequestTopicData(topic_name="other"),)])
def test_requests_for_anything_but_the_one_partition_are_invalid(bench: RaftBench, topics: Any) -> None:
    """B21, B27: there is no other raft group."""
    assert ask(bench, vote.VoteRequest(topics=topics), 2).error_code == ErrorCode.INVALID_REQUEST


def test_a_claim_to_its_own_epoch_changes_nothing(bench: RaftBench) -> None:
    """B-R07, B-R08: an older epoch is fenced, and a request for another node is refused."""
    begin = begin_quorum_epoch.RequestPartitionData(leader_id=2, leader_epoch=0)
    topic = begin_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(begin,))
    answer = ask(bench, begin_quorum_epoch.BeginQuorumEpochRequest(topics=(topic,)), 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    newer = begin_quorum_epoch.RequestPartitionData(leader_id=2, leader_epoch=9, voter_directory_id=OTHER_DIRECTORY_ID)
    topic = begin_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(newer,))
    answer = ask(bench, begin_quorum_epoch.BeginQuorumEpochRequest(topics=(topic,)), 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
    end = end_quorum_epoch.RequestPartitionData(leader_id=2, leader_epoch=0)
    ending = end_quorum_epoch.EndQuorumEpochRequest(
        topics=(end_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(end,)),)
    )
    answer = ask(bench, ending, 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.node.epoch == 1


def test_an_observer_reads_the_log(bench: RaftBench) -> None:
    """S1-30, KIP-595: the bytes from the asked offset on, the high watermark, who leads."""
    answer = ask(bench, a_fetch(1), 17)
    [partition] = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    assert bytes(partition.records) == bench.log.batches[1][3]
    assert (partition.high_watermark, partition.log_start_offset) == (2, 0)
    assert partition.current_leader == fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=1)
    assert answer.node_endpoints == (fetch.NodeEndpoint(node_id=1, host="127.0.0.1", port=9093),)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_fetches_are_refused(bench: RaftBench, changes: dict[str, int], error: ErrorCode) -> None:
    """B-R10, input:B23: unknown and fenced epochs, negative values, a last epoch above the current one."""
    answer = ask(bench, a_fetch(**changes), 17)
    assert answer.responses[0].partitions[0].error_code == error


def test_a_fetch_waits_for_records(bench: RaftBench) -> None:
    """KIP-595: at the end of the log a fetch waits until something is written, or until its time is over."""
    assert ask(bench, a_fetch(2, max_wait_ms=500), 17) is None
    assert bench.node.next_deadline_ms() == 1_500
    effects = bench.step(RecordsOffered(records=(b"two",), base_offset=2, epoch=1, now_ms=1_100))
    answers = [effect.response for effect in effects if isinstance(effect, AnswerRaftRequest)]
    assert len(answers) == 1
    bench.flush()
    assert ask(bench, a_fetch(3, max_wait_ms=500), 17) is None
    assert bench.step(TimeAdvanced(now_ms=1_499)) == []
    [late] = bench.step(TimeAdvanced(now_ms=1_500))
    assert isinstance(late, AnswerRaftRequest)
    assert bench.node.next_deadline_ms() is None


def test_a_crowd_of_waiting_fetches_is_answered_in_steps_voters_first(bench: RaftBench) -> None:
    """PR8: who is woken by a record makes nobody else wait for long, whatever else happens, and is not forgotten."""
    crowd = range(100, 100 + 2 * MAX_ANSWERS_A_STEP)
    for replica in (*crowd, 1):  # 1 is a voter's id
        assert ask(bench, a_fetch(2, max_wait_ms=500, replica=replica), 17) is None
    voters_token = next(TOKENS) - 1
    steps = [bench.step(RecordsOffered(records=(b"two",), base_offset=2, epoch=1, now_ms=bench.now_ms)), bench.flush()]
    assert bench.node.next_deadline_ms() == bench.now_ms
    for _ in range(2):
        steps.append(bench.step(TimeAdvanced(now_ms=bench.now_ms)))
    answered = [[each.token for each in step if isinstance(each, AnswerRaftRequest)] for step in steps]
    assert [len(each) for each in answered] == [MAX_ANSWERS_A_STEP, 0, MAX_ANSWERS_A_STEP, 1]
    assert answered[0][0] == voters_token
    assert len({token for each in answered for token in each}) == len(crowd) + 1
    assert bench.node.next_deadline_ms() is None


def test_the_rest_of_a_crowd_is_told_of_a_leader_that_stops(bench: RaftBench) -> None:
    """PR8: who is not answered yet when the leader begins to stop is told what is true then."""
    for replica in range(100, 102 + MAX_ANSWERS_A_STEP):
        assert ask(bench, a_fetch(2, max_wait_ms=500, replica=replica), 17) is None
    bench.step(RecordsOffered(records=(b"two",), base_offset=2, epoch=1, now_ms=bench.now_ms))
    bench.flush()
    bench.step(ShutdownBegan(now_ms=bench.now_ms))
    told = bench.step(TimeAdvanced(now_ms=bench.now_ms))
    answers = [each.response for each in told if isinstance(each, AnswerRaftRequest)]
    errors = [each.responses[0].partitions[0].error_code for each in answers]  # type: ignore[union-attr]
    assert errors == [ErrorCode.BROKER_NOT_AVAILABLE] * 2


def test_a_fetcher_that_knows_an_older_high_watermark_is_told(bench: RaftBench) -> None:
    """KIP-1166: Fetch v18 says which high watermark the fetcher knows."""
    answer = ask(bench, a_fetch(2, max_wait_ms=500, high_watermark=1), 18)
    assert answer.responses[0].partitions[0].high_watermark == 2
    assert ask(bench, a_fetch(2, max_wait_ms=500, high_watermark=2), 18) is None


def test_a_fetcher_with_another_history_must_truncate(bench: RaftBench) -> None:
    """KIP-595: the diverging epoch and where it ended here."""
    answer = ask(bench, a_fetch(5, 1), 17)
    [partition] = answer.responses[0].partitions
    assert partition.diverging_epoch == fetch.EpochEndOffset(epoch=1, end_offset=2)
    assert not partition.records


def test_what_is_no_longer_in_the_log_is_in_a_snapshot(bench: RaftBench) -> None:
    """B-S05: a fetch below the log start, or at 0 with a snapshot present, is answered with the snapshot's id."""
    bench.snapshots.put(OffsetAndEpoch(1, 1), b"0123456789")
    bench.log.delete_segments_below(1)
    needed = fetch.SnapshotId(end_offset=1, epoch=1)
    for offset, epoch in ((0, 0), (0, 1)):
        answer = ask(bench, a_fetch(offset, epoch), 17)
        assert answer.responses[0].partitions[0].snapshot_id == needed
    answer = ask(bench, a_fetch(1, 1), 17)
    assert bytes(answer.responses[0].partitions[0].records) == bench.log.batches[0][3]


def test_the_zero_snapshot_is_never_sent(bench: RaftBench) -> None:
    """B-S10: the 0-0 snapshot with the voters is this node's own."""
    bench.snapshots.put(OffsetAndEpoch(0, 0), b"0123456789")
    answer = ask(bench, a_fetch(0, 0), 17)
    assert answer.responses[0].partitions[0].snapshot_id == fetch.SnapshotId()
    answer = ask(bench, a_snapshot_fetch(0), 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_a_snapshot_is_read_in_pieces(bench: RaftBench) -> None:
    """B-S06: position, size and at most the bytes asked for."""
    bench.snapshots.put(OffsetAndEpoch(1, 1), b"0123456789")
    got = b""
    while len(got) < 10:
        answer = ask(bench, a_snapshot_fetch(position=len(got)), 1)
        [partition] = answer.topics[0].partitions
        assert (partition.error_code, partition.size, partition.position) == (ErrorCode.NONE, 10, len(got))
        got += bytes(partition.unaligned_records)
    assert got == b"0123456789"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (a_snapshot_fetch(3), ErrorCode.SNAPSHOT_NOT_FOUND),
        (a_snapshot_fetch(position=10), ErrorCode.POSITION_OUT_OF_RANGE),
        (a_snapshot_fetch(position=-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (a_snapshot_fetch(epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (a_snapshot_fetch(epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (a_snapshot_fetch(name="other"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_bad_snapshot_fetches_are_refused(
    bench: RaftBench, request_: fetch_snapshot.FetchSnapshotRequest, error: ErrorCode
) -> None:
    """B-S07: and the answer is about the partition that was asked for."""
    bench.snapshots.put(OffsetAndEpoch(1, 1), b"0123456789")
    answer = ask(bench, request_, 1)
    assert answer.topics[0].partitions[0].error_code == error
    assert answer.topics[0].name == request_.topics[0].name


def describe(name: str = NAME) -> describe_quorum.DescribeQuorumRequest:
    """What kafka-metadata-quorum asks."""
    partition = describe_quorum.RequestPartitionData(partition_index=0)
    topic = describe_quorum.RequestTopicData(topic_name=name, partitions=(partition,))
    return describe_quorum.DescribeQuorumRequest(topics=(topic,))


def test_the_leader_describes_voters_and_observers(bench: RaftBench) -> None:
    """S1-30, S4-41, S4-42, S4-43, S4-44, S4-45, S4-46, S4-48, S4-49: every broker that fetches is among the observers, with how far it is."""
    ask(bench, a_fetch(1, replica_directory_id=OTHER_DIRECTORY_ID), 17)
    answer = ask(bench, describe(), 2)
    [partition] = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 2)
    state = describe_quorum.ReplicaState
    assert partition.current_voters == (
        state(
            replica_id=1,
            replica_directory_id=ZERO_UUID,
            log_end_offset=2,
            last_fetch_timestamp=1_000,
            last_caught_up_timestamp=1_000,
        ),
    )
    assert partition.observers == (
        state(replica_id=7, replica_directory_id=OTHER_DIRECTORY_ID, log_end_offset=1, last_fetch_timestamp=1_000),
    )
    assert [node.node_id for node in answer.nodes] == [1]


def test_an_observer_that_fell_silent_is_forgotten(bench: RaftBench) -> None:
    """S4-48: observers are told of for five minutes, and not one moment less."""
    ask(bench, a_fetch(1), 17)
    bench.now_ms += 299_999
    assert [each.replica_id for each in ask(bench, describe(), 2).topics[0].partitions[0].observers] == [7]
    bench.now_ms += 1
    assert ask(bench, describe(), 2).topics[0].partitions[0].observers == ()


def test_observers_that_nobody_knows_are_kept_up_to_a_number(bench: RaftBench) -> None:
    """promise:PR8: a peer that fetches under ever new ids and directories takes no memory, and hides no real observer for long."""
    ask(bench, a_fetch(replica=8), 17)
    for number in range(MOST_OBSERVERS):
        ask(bench, a_fetch(replica=9, replica_directory_id=Uuid(number.to_bytes(16, "big"))), 17)
        if number % 1_000 == 0:
            ask(bench, a_fetch(replica=8), 17)
    told = [each.replica_id for each in ask(bench, describe(), 2).topics[0].partitions[0].observers]
    assert (len(told), told[0]) == (MOST_OBSERVERS, 8)


def test_only_a_leader_describes_and_only_its_own_quorum(bench: RaftBench) -> None:
    """S4-51, input:B28, input:B27: NOT_LEADER_OR_FOLLOWER(6), UNKNOWN_TOPIC_OR_PARTITION(3)."""
    error = ask(bench, describe("other"), 2).topics[0].partitions[0].error_code
    assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.step(ShutdownBegan(now_ms=2_000))
    error = ask(bench, describe(), 2).topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_stopping_node_says_so(bench: RaftBench) -> None:
    """B-R10, input:B28: waiting fetches are answered at once, new ones get BROKER_NOT_AVAILABLE(8); a vote may still be had."""
    assert ask(bench, a_fetch(2, max_wait_ms=500), 17) is None
    effects = bench.step(ShutdownBegan(now_ms=1_100))
    [waiting] = [effect.response for effect in effects if isinstance(effect, AnswerRaftRequest)]
    assert isinstance(waiting, fetch.FetchResponse)
    assert waiting.responses[0].partitions[0].error_code == ErrorCode.BROKER_NOT_AVAILABLE
    answer = ask(bench, a_fetch(2), 17)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert ask(bench, a_vote(epoch=1, pre=True), 2).topics[0].partitions[0].vote_granted


def test_the_metadata_topic_has_a_fixed_id() -> None:
    """B-R01: uuid one."""
    assert Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ") == METADATA_TOPIC_ID


def test_a_tool_that_fetches_leaves_no_state(bench: RaftBench) -> None:
    """B-R19: replica id -1 reads, and is no observer."""
    answer = ask(bench, a_fetch(1, replica=-1), 17)
    assert bytes(answer.responses[0].partitions[0].records) == bench.log.batches[1][3]
    assert ask(bench, describe(), 2).topics[0].partitions[0].observers == ()


def test_older_versions_say_less_of_the_quorum(bench: RaftBench) -> None:
    """S4-49, S4-50: directory ids and nodes from version 2 on; times the codec leaves out of version 0."""
    ask(bench, a_fetch(1, replica_directory_id=OTHER_DIRECTORY_ID), 17)
    answer = ask(bench, describe(), 1)
    [partition] = answer.topics[0].partitions
    assert answer.nodes == ()
    assert [each.replica_directory_id for each in partition.observers] == [ZERO_UUID]


def test_what_followers_reached_is_told() -> None:
    """S4-46, S4-49, S4-53: each voter's log end and when it last fetched; -1 while it never did."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    silent = next(each for each in (1, 2, 3) if each != leader)
    cluster.stop(silent)
    [partition] = cluster.answer(leader, describe()).topics[0].partitions
    others = {each.replica_id: each for each in partition.current_voters}
    assert sorted(others) == [1, 2, 3]
    before = others[silent]
    end = cluster.offer(leader, b"a", b"b")
    awake = next(each for each in (1, 2, 3) if each not in (leader, silent))
    cluster.run_committed(end, awake)
    cluster.run_for(600)
    [partition] = cluster.answer(leader, describe()).topics[0].partitions
    after = {each.replica_id: each for each in partition.current_voters}
    assert after[silent] == before
    assert after[awake].log_end_offset == end
    assert after[awake].last_caught_up_timestamp >= after[silent].last_caught_up_timestamp
    assert after[awake].last_fetch_timestamp >= cluster.now_ms - 600
