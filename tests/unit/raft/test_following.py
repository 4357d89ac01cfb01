"""Does a follower write, sync, cut and fetch what it must, and nothing else?"""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import METADATA_TOPIC_ID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import SendFailure
from headrace.raft.events import (
    AnswerRaftRequest,
    FinishSnapshot,
    FlushLog,
    HighWatermarkAdvanced,
    LoadSnapshot,
    LogFlushed,
    NodeStarted,
    QuorumState,
    QuorumStateStored,
    RaftEffect,
    RaftEvent,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    SendRaftRequest,
    SnapshotStored,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.following import MOST_BATCHES
from headrace.raft.invariants import RaftInvariantBroken, check_may_load
from headrace.raft.machine import RaftNode
from headrace.raft.replication import record_batch
from headrace.raft.roles import Follower, Prospective, Role, Unattached
from headrace.raft.snapshots import build_snapshot, finish_download
from headrace.raft.voters import VoterSet
from headrace.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import CLUSTER_ID
from tests.support.raft_cluster import config, directory_id, end_point, static, static_cluster

LEADER = 2
EPOCH = 5


class Fed:
    """Node 1 follows node 2 of epoch 5; the test plays the leader."""

    def __init__(
        self,
        *,
        log: MemoryLog | None = None,
        voters: VoterSet | None = None,
        leader: int = LEADER,
        **changes: object,
    ) -> None:
        self.log = log or MemoryLog()
        self.snapshots = MemorySnapshots()
        self.now_ms = 1_000
        self.node = RaftNode(
            config=config(1, static(1, 2, 3) if voters is None else voters, **changes),
            log=self.log.as_port(),
            snapshots=self.snapshots.as_port(),
            state=QuorumState(leader_epoch=EPOCH, leader_id=leader),
            rng=random.Random(1),
        )
        self.seen: list[RaftEffect] = []
        self.sent: list[SendRaftRequest] = []
        self.step(NodeStarted(now_ms=self.now_ms))

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        """One event; what was sent is kept."""
        effects = self.node.step(event)
        for effect in list(effects):
            if isinstance(effect, StoreQuorumState):
                effects += self.step(QuorumStateStored(state=effect.state, now_ms=self.now_ms))
        self.sent += [each for each in effects if isinstance(each, SendRaftRequest) and each not in self.sent]
        self.seen += effects
        return effects

    @property
    def asked(self) -> fetch.FetchPartition:
        """The newest fetch."""
        requests = [each.request for each in self.sent if isinstance(each.request, fetch.FetchRequest)]
        return requests[-1].topics[0].partitions[0]

    @property
    def fetches(self) -> int:
        """How many fetches were sent."""
        return sum(isinstance(each.request, fetch.FetchRequest) for each in self.sent)

    def asked_of(self, node_id: int) -> int:
        """How many fetches went to that node."""
        return sum(isinstance(each.request, fetch.FetchRequest) and each.to.node_id == node_id for each in self.sent)

    def answer(self, response: Any, *, number: int = -1) -> list[RaftEffect]:
        """The leader answers a request, the newest unless told otherwise."""
        return self.step(
            RaftResponseArrived(correlation=self.sent[number].correlation, response=response, now_ms=self.now_ms)
        )

    def give(self, *batches: bytes, high_watermark: int = 0, **changes: Any) -> list[RaftEffect]:
        """The leader answers the fetch with batches."""
        return self.answer(fetched(records=b"".join(batches), high_watermark=high_watermark, **changes))

    def follow(self, leader: int, epoch: int) -> None:
        """`leader` says that it leads a later epoch: it is followed, and asked."""
        before = self.asked_of(leader)
        partition = begin_quorum_epoch.RequestPartitionData(leader_id=leader, leader_epoch=epoch)
        topic = begin_quorum_epoch.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        request = begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, voter_id=1, topics=(topic,))
        self.step(
            RaftRequestArrived(token=1, request=request, api_version=1, listener="CONTROLLER", now_ms=self.now_ms)
        )
        assert (self.node.epoch, self.node.leader_id, self.asked_of(leader)) == (epoch, leader, before + 1)

    def flush(self) -> list[RaftEffect]:
        """The ordered flush is done."""
        return self.step(LogFlushed(upto=self.log.flush(), now_ms=self.now_ms))


def fetched(**changes: Any) -> fetch.FetchResponse:
    """An answer of the leader."""
    error = changes.pop("error_code", ErrorCode.NONE)
    leader = changes.pop("leader", LEADER)
    epoch = changes.pop("epoch", EPOCH)
    top = changes.pop("top", ErrorCode.NONE)
    partition = fetch.PartitionData(
        error_code=error, current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch), **changes
    )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch.FetchResponse(error_code=top, responses=(topic,))


def batch(base: int, *records: bytes, epoch: int = EPOCH) -> bytes:
    """A batch of the leader's log."""
    return bytes(record_batch(records or (b"r",), base_offset=base, epoch=epoch, now_ms=1))


def held(*batches: bytes, high_watermark: int = 0) -> MemoryLog:
    """A log that holds these batches, all on disk."""
    log = MemoryLog()
    for data in batches:
        log.append_as_follower(memoryview(data), leader_epoch=99, now_ms=1)
    log.flush()
    log.high_watermark = high_watermark
    return log


def test_a_fetch_says_where_the_log_ends_and_who_asks() -> None:
    """B-R09, S4-09: epoch, offset, last epoch, node.id as replica id, directory id, cluster id, 500 ms, the known high watermark."""
    fed = Fed(log=held(batch(0, b"a", b"b", epoch=3)))
    [sent] = fed.sent
    request = sent.request
    assert isinstance(request, fetch.FetchRequest)
    assert (sent.to.node_id, sent.to.host) == (LEADER, end_point(LEADER).host)
    assert (request.cluster_id, request.max_wait_ms, request.replica_state.replica_id) == (CLUSTER_ID, 500, 1)
    asked = fed.asked
    assert (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (EPOCH, 2, 3)
    assert (asked.replica_directory_id, asked.high_watermark) == (directory_id(1), -1)


def test_what_was_fetched_is_synced_before_the_next_fetch() -> None:
    """B-R14, inv:R12, defect:K2: no fetch until the flush is done, then at once, at the end of what is on disk."""
    fed = Fed()
    effects = fed.give(batch(0, b"a"), batch(1, b"b", b"c"))
    assert [type(each) for each in effects] == [FlushLog]
    assert fed.step(TimeAdvanced(now_ms=1_100)) == []
    assert fed.fetches == 1
    fed.flush()
    assert (fed.fetches, fed.asked.fetch_offset) == (2, 3)
    assert fed.node.durable_end == 3


def test_a_controller_that_is_no_voter_syncs_too_and_a_broker_does_not() -> None:
    """inv:R12, defect:K7: it may become a voter; a broker only reads."""
    observer = Fed(voters=static(2, 3))
    assert [type(each) for each in observer.give(batch(0))] == [FlushLog]
    broker = Fed(voters=static(2, 3), is_controller=False)
    assert [type(each) for each in broker.give(batch(0))] == [SendRaftRequest]
    assert broker.asked.fetch_offset == 1


def test_what_a_crash_left_in_the_page_cache_is_synced_before_the_first_fetch() -> None:
    """inv:R12, fault:S50: after a kill the log may be longer than what is on disk."""
    log = held(batch(0, b"a"))
    log.durable_end_offset = 0
    fed = Fed(log=log)
    assert fed.sent == []
    assert FlushLog() in fed.seen
    fed.flush()
    assert fed.asked.fetch_offset == 1


def test_only_what_the_leader_committed_is_given_to_readers() -> None:
    """B-R12, inv:R8, inv:R10: at most to the own log's end, never back, never from -1."""
    fed = Fed()
    assert HighWatermarkAdvanced(to=1) in fed.give(batch(0), batch(1, b"x", b"y"), high_watermark=1)
    fed.flush()
    assert fed.asked.high_watermark == 1
    assert HighWatermarkAdvanced(to=3) in fed.give(high_watermark=9)
    assert not [each for each in fed.give(high_watermark=2) if isinstance(each, HighWatermarkAdvanced)]
    assert not [each for each in fed.give(high_watermark=-1) if isinstance(each, HighWatermarkAdvanced)]
    assert fed.node.high_watermark == 3


@pytest.mark.parametrize(
    "bad",
    [
        batch(7),
        batch(0, epoch=EPOCH + 1),
        batch(0)[:-1] + b"\xff",
    ],
    ids=["offset", "epoch", "crc"],
)
def test_a_batch_that_does_not_fit_is_not_written(bad: bytes) -> None:
    """inv:R20: wrong offset, an epoch above the leader's, a wrong CRC; asked again after a pause."""
    fed = Fed()
    fed.give(bad)
    assert (fed.node.log_end, fed.asked_of(LEADER)) == (0, 1)
    fed.step(TimeAdvanced(now_ms=1_030))
    assert fed.asked_of(LEADER) == 2


def test_of_very_many_batches_some_are_written_and_the_rest_is_fetched_again() -> None:
    """PR8: in short turns."""
    fed = Fed()
    fed.give(*(batch(number) for number in range(MOST_BATCHES + 1)))
    fed.flush()
    assert fed.asked.fetch_offset == fed.node.log_end == MOST_BATCHES


def test_a_cut_off_last_batch_is_fetched_again() -> None:
    """inv:R20: only whole batches are written."""
    fed = Fed()
    fed.give(batch(0), batch(1)[:-3])
    assert fed.node.log_end == 1


@pytest.mark.parametrize("leader", [3, LEADER], ids=["another leader", "the same leader"])
@pytest.mark.parametrize(
    "late",
    [
        {"records": batch(1, epoch=EPOCH)},
        {"high_watermark": 1},
        {"diverging_epoch": fetch.EpochEndOffset(epoch=0, end_offset=0)},
        {"snapshot_id": fetch.SnapshotId(end_offset=7, epoch=4)},
    ],
    ids=["records", "high watermark", "cut", "snapshot"],
)
def test_an_answer_of_an_older_epoch_changes_nothing(late: dict[str, Any], leader: int) -> None:
    """inv:R20, defect:K12: the epoch moved on while the answer was under way, and the log still ends where it ended."""
    fed = Fed(log=held(batch(0, b"a", epoch=1)))
    assert fed.asked_of(LEADER) == 1
    fed.follow(leader, EPOCH + 1)
    asked = list(fed.sent)
    effects = fed.answer(fetched(**late), number=0)
    assert (effects, fed.sent) == ([], asked)
    assert (fed.node.log_end, fed.node.high_watermark, fed.snapshots.parts) == (1, 0, {})
    role = fed.node.role
    assert isinstance(role, Follower)
    assert (role.epoch, role.leader_id, role.has_fetched) == (EPOCH + 1, leader, False)


def test_the_answer_to_another_fetch_of_the_same_epoch_is_taken() -> None:
    """inv:R20: the next leader's answer counts, also when the former one's came first."""
    fed = Fed()
    fed.follow(3, EPOCH + 1)
    fed.answer(fetched(records=batch(0)), number=0)
    fed.give(batch(0, b"n", epoch=EPOCH + 1), leader=3, epoch=EPOCH + 1)
    assert (fed.node.log_end, fed.log.latest_epoch) == (1, EPOCH + 1)


@pytest.mark.parametrize(("error", "is_served"), [(ErrorCode.NONE, True), (ErrorCode.UNKNOWN_LEADER_EPOCH, False)])
def test_a_leader_that_answers_a_search_is_alive(*, error: ErrorCode, is_served: bool) -> None:
    """KIP-996, inv:R22: it was asked who leads, and told so itself meanwhile; its records are fetched by the next request (R20)."""
    fed = Fed(leader=-1, elect_at_start=False)
    asked = fed.sent[-1].to.node_id
    fed.follow(asked, EPOCH)
    effects = fed.answer(fetched(records=batch(0), leader=asked, error_code=error), number=0)
    role = fed.node.role
    assert isinstance(role, Follower)
    assert (role.leader_id, role.has_fetched, fed.node.log_end, effects) == (asked, is_served, 0, [])


def test_a_forked_log_is_cut_where_the_histories_part() -> None:
    """B-R11, defect:K16: the leader says where its epoch at or below ours ended; the next fetch asks from there."""
    fed = Fed(log=held(batch(0, b"a", epoch=1), batch(1, b"b", epoch=2), batch(2, b"c", epoch=4)))
    fed.give(diverging_epoch=fetch.EpochEndOffset(epoch=2, end_offset=2), high_watermark=9)
    assert (fed.node.log_end, fed.node.high_watermark) == (2, 0)
    assert (fed.asked.fetch_offset, fed.asked.last_fetched_epoch) == (2, 2)
    fed.give(diverging_epoch=fetch.EpochEndOffset(epoch=0, end_offset=0))
    assert fed.node.log_end == 0


def test_a_fetch_that_waits_for_the_disk_does_not_name_an_end_that_was_cut_meanwhile() -> None:
    """inv:R12: whom to follow is being stored when the answer to an earlier fetch cuts the log; the next fetch asks from its end."""
    fed = Fed(log=held(batch(0, b"a", epoch=1), batch(1, b"b", epoch=2)))
    asked = fed.sent[-1].correlation
    claim = end_quorum_epoch.RequestPartitionData(leader_id=3, leader_epoch=EPOCH)
    topic = end_quorum_epoch.RequestTopicData(topic_name="__cluster_metadata", partitions=(claim,))
    forged = end_quorum_epoch.EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,))
    fed.step(RaftRequestArrived(token=1, request=forged, api_version=1, listener="CONTROLLER", now_ms=fed.now_ms))
    begun = begin_quorum_epoch.RequestPartitionData(leader_id=LEADER, leader_epoch=EPOCH)
    true = begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=CLUSTER_ID,
        voter_id=1,
        topics=(begin_quorum_epoch.RequestTopicData(topic_name="__cluster_metadata", partitions=(begun,)),),
    )
    effects = fed.node.step(
        RaftRequestArrived(token=2, request=true, api_version=1, listener="CONTROLLER", now_ms=fed.now_ms)
    )
    [store] = [each for each in effects if isinstance(each, StoreQuorumState)]
    cut = fetched(diverging_epoch=fetch.EpochEndOffset(epoch=1, end_offset=1))
    effects = fed.node.step(RaftResponseArrived(correlation=asked, response=cut, now_ms=fed.now_ms))
    assert fed.node.log_end == 1
    fed.step(QuorumStateStored(state=store.state, now_ms=fed.now_ms))
    assert (fed.asked.fetch_offset, fed.asked.last_fetched_epoch) == (1, 1)


def test_the_leaders_high_watermark_is_not_taken_with_a_truncation() -> None:
    """B-R11, defect:K14: what the answer calls committed was not there when it was made."""
    fed = Fed(log=held(batch(0, b"a", epoch=1), batch(1, b"b", epoch=2)))
    effects = fed.give(diverging_epoch=fetch.EpochEndOffset(epoch=1, end_offset=1), high_watermark=1)
    assert not [each for each in effects if isinstance(each, HighWatermarkAdvanced)]


def test_a_cut_below_the_high_watermark_stops_the_node() -> None:
    """B-R11, inv:R11, defect:K8: it would lose what was committed: fatal, and nothing is cut."""
    fed = Fed()
    fed.give(batch(0), batch(1), high_watermark=2)
    fed.flush()
    with pytest.raises(RaftInvariantBroken, match=r"below the high watermark 2 \(R11\)"):
        fed.give(diverging_epoch=fetch.EpochEndOffset(epoch=EPOCH, end_offset=1))
    assert fed.log.log_end_offset == 2


def test_a_claim_to_the_epoch_of_a_leader_that_served_this_node_is_not_believed() -> None:
    """inv:R1, promise:PR8: whoever says so; the node goes on with the leader that it follows."""
    fed = Fed()
    fed.give(batch(0))
    fed.give(leader=3)
    assert fed.node.leader_id == 2
    partition = begin_quorum_epoch.RequestPartitionData(leader_id=3, leader_epoch=EPOCH)
    topic = begin_quorum_epoch.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
    request = begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, voter_id=1, topics=(topic,))
    event = RaftRequestArrived(token=1, request=request, api_version=1, listener="CONTROLLER", now_ms=fed.now_ms)
    [answer] = [each.response for each in fed.step(event) if isinstance(each, AnswerRaftRequest)]
    assert isinstance(answer, begin_quorum_epoch.BeginQuorumEpochResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert fed.node.leader_id == 2


def test_a_leader_that_never_served_this_node_gives_way_to_another_claim_to_its_epoch() -> None:
    """inv:R1, RL1: one of the two is a forgery; to hold on to the first would keep the node from the leader that is elected."""
    fed = Fed()
    fed.give(leader=3)
    assert (fed.node.epoch, fed.node.leader_id, fed.asked_of(3)) == (EPOCH, 3, 1)


def test_silence_makes_a_voter_ask_for_votes() -> None:
    """B-R02: after the fetch timeout without a good answer; an observer goes on asking round."""
    fed = Fed(election_timeout_ms=1_000)
    roles = [(fed.step(TimeAdvanced(now_ms=now_ms)), type(fed.node.role))[1] for now_ms in (2_999, 3_000)]
    assert roles == [Follower, Prospective]
    observer = Fed(voters=static(2, 3))
    observer.step(TimeAdvanced(now_ms=9_000))
    assert isinstance(observer.node.role, Follower)


def test_a_broken_connection_is_tried_again_at_once_then_with_pauses() -> None:
    """S4-07, S4-08: retry.backoff.ms, doubled; the first time nothing is waited for, since a dead process refuses."""
    fed = Fed()
    fed.step(RaftRequestFailed(correlation=fed.sent[-1].correlation, failure=SendFailure.DISCONNECTED, now_ms=1_000))
    assert (fed.fetches, fed.sent[-1].to.node_id) == (2, LEADER)
    fed.step(RaftRequestFailed(correlation=fed.sent[-1].correlation, failure=SendFailure.DISCONNECTED, now_ms=1_000))
    to_leader = [each for each in fed.sent if each.to.node_id == LEADER]
    assert len(to_leader) == 2
    assert fed.sent[-1].to.node_id == 3


def test_an_unattached_node_asks_round_for_the_leader() -> None:
    """S4-20, S4-24, S4-28..S4-34: bootstrap servers one after the other; a fenced answer brings the leader."""
    servers = (("boot", 1), ("boot", 2))
    fed = Fed(voters=VoterSet(), bootstrap_servers=servers)
    before: Role = fed.node.role
    assert isinstance(before, Unattached)
    [first] = fed.sent
    assert (first.to.node_id, (first.to.host, first.to.port) in servers) == (-1, True)
    nodes = (fetch.NodeEndpoint(node_id=3, host="h3", port=3),)
    response = fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader=3, epoch=EPOCH + 2)
    fed.answer(fetch.FetchResponse(responses=response.responses, node_endpoints=nodes))
    role: Role = fed.node.role
    assert isinstance(role, Follower)
    assert (role.leader_id, role.leader_end_points[0][1:]) == (3, ("h3", 3))
    assert fed.sent[-1].to == (3, "h3", 3)


def test_it_goes_on_asking_while_nobody_knows() -> None:
    """S4-24, S4-30, S4-34: for ever, with growing pauses up to a quarter of a second."""
    fed = Fed(voters=VoterSet(), bootstrap_servers=(("boot", 1),))
    for _ in range(20):
        fed.give(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=-1)
        deadline = fed.node.next_deadline_ms()
        assert deadline is not None
        assert deadline - fed.now_ms <= 300
        fed.now_ms = deadline
        fed.step(TimeAdvanced(now_ms=deadline))
    assert fed.fetches == 21


# Snapshots

SNAPSHOT = OffsetAndEpoch(40, 4)


def snapshot_bytes() -> bytes:
    """A whole snapshot."""
    made = build_snapshot((b"image",) * 9, snapshot_id=SNAPSHOT, last_contained_log_timestamp=1, now_ms=1)
    return b"".join(bytes(each) for each in made)


def piece(position: int, data: bytes, size: int, **changes: Any) -> fetch_snapshot.FetchSnapshotResponse:
    """The leader's answer to FetchSnapshot."""
    error = changes.get("error_code", ErrorCode.NONE)
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=fetch_snapshot.ResponseSnapshotId(end_offset=SNAPSHOT.offset, epoch=SNAPSHOT.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=LEADER, leader_epoch=EPOCH),
        size=size,
        position=position,
        unaligned_records=data,
    )
    topic = fetch_snapshot.ResponseTopicSnapshot(name="__cluster_metadata", partitions=(partition,))
    return fetch_snapshot.FetchSnapshotResponse(topics=(topic,))


def wanting() -> Fed:
    """A follower that was told to fetch the snapshot."""
    fed = Fed()
    fed.give(snapshot_id=fetch.SnapshotId(end_offset=SNAPSHOT.offset, epoch=SNAPSHOT.epoch))
    return fed


def position_asked(fed: Fed) -> int:
    """Where the newest FetchSnapshot begins."""
    request = fed.sent[-1].request
    assert isinstance(request, fetch_snapshot.FetchSnapshotRequest)
    return request.topics[0].partitions[0].position


def test_a_snapshot_comes_in_pieces_and_replaces_the_log() -> None:
    """B-S06, inv:R15, inv:R16, defect:K10: pieces in a part, checked and synced, then the log begins at its end."""
    fed, data = wanting(), snapshot_bytes()
    at, effects = 0, list[RaftEffect]()
    while at < len(data):
        assert position_asked(fed) == at
        assert fed.snapshots.latest() is None
        effects = fed.answer(piece(at, data[at : at + 50], len(data)))
        at += 50
    assert FinishSnapshot(snapshot_id=SNAPSHOT) in effects
    assert finish_download(fed.snapshots, SNAPSHOT)
    effects = fed.step(SnapshotStored(snapshot_id=SNAPSHOT, is_sound=True, now_ms=1_000))
    assert LoadSnapshot(snapshot_id=SNAPSHOT) in effects
    assert (fed.node.log_end, fed.node.high_watermark, fed.log.log_start_offset) == (40, 40, 40)
    assert (fed.asked.fetch_offset, fed.asked.last_fetched_epoch) == SNAPSHOT


def test_a_lost_piece_is_asked_for_again() -> None:
    """B-S08: a time-out in mid-transfer goes on where the part ends."""
    fed, data = wanting(), snapshot_bytes()
    fed.answer(piece(0, data[:50], len(data)))
    fed.step(RaftRequestFailed(correlation=fed.sent[-1].correlation, failure=SendFailure.TIMED_OUT, now_ms=1_500))
    deadline = fed.node.next_deadline_ms()
    assert deadline is not None
    fed.step(TimeAdvanced(now_ms=deadline))
    assert position_asked(fed) == 50


@pytest.mark.parametrize(
    "answer",
    [
        piece(0, b"", 100, error_code=ErrorCode.SNAPSHOT_NOT_FOUND),
        piece(0, b"", 100, error_code=ErrorCode.POSITION_OUT_OF_RANGE),
        piece(7, b"x", 100),
        piece(0, b"", 100),
    ],
)
def test_a_snapshot_that_is_gone_is_started_over(answer: fetch_snapshot.FetchSnapshotResponse) -> None:
    """B-S07, B-S08: the part is dropped, and the next fetch says what to do."""
    fed = wanting()
    fed.answer(answer)
    assert fed.snapshots.parts == {}
    deadline = fed.node.next_deadline_ms()
    assert deadline is not None
    fed.step(TimeAdvanced(now_ms=deadline))
    assert isinstance(fed.sent[-1].request, fetch.FetchRequest)


def test_a_damaged_snapshot_is_started_over() -> None:
    """B-S06, B-S11: every batch is checked before the part gets a name."""
    fed, data = wanting(), bytearray(snapshot_bytes())
    data[120] ^= 1
    fed.answer(piece(0, bytes(data), len(data)))
    assert not finish_download(fed.snapshots, SNAPSHOT)
    fed.step(SnapshotStored(snapshot_id=SNAPSHOT, is_sound=False, now_ms=1_000))
    assert (fed.node.log_end, fed.snapshots.ids(), fed.snapshots.parts) == (0, [], {})
    assert isinstance(fed.sent[-1].request, fetch.FetchRequest)


def test_another_leader_means_another_download() -> None:
    """B-S08: the part of the former leader is dropped."""
    fed, data = wanting(), snapshot_bytes()
    fed.answer(piece(0, data[:50], len(data)))
    late = fed.sent[-1]
    fed.node.step(
        RaftResponseArrived(
            correlation=late.correlation,
            response=fetch_snapshot.FetchSnapshotResponse(
                topics=(
                    fetch_snapshot.ResponseTopicSnapshot(
                        partitions=(
                            fetch_snapshot.ResponsePartitionSnapshot(
                                error_code=ErrorCode.FENCED_LEADER_EPOCH,
                                current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=3, leader_epoch=EPOCH + 1),
                            ),
                        )
                    ),
                )
            ),
            now_ms=1_000,
        )
    )
    assert fed.snapshots.parts == {}
    assert fed.node.leader_id == 3


def test_a_late_piece_of_the_former_leader_changes_nothing() -> None:
    """B-S08: also when the next leader names the same snapshot, and the same piece of it was asked for."""
    fed, data = wanting(), snapshot_bytes()
    late = len(fed.sent) - 1
    fed.follow(3, EPOCH + 1)
    fed.give(snapshot_id=fetch.SnapshotId(end_offset=SNAPSHOT.offset, epoch=SNAPSHOT.epoch), leader=3, epoch=EPOCH + 1)
    assert (fed.sent[-1].to.node_id, position_asked(fed)) == (3, 0)
    fed.answer(piece(0, data[:50], len(data)), number=late)
    assert fed.snapshots.parts == {}


def test_a_leader_loads_no_snapshot() -> None:
    """inv:R16: the product asserts it."""
    with pytest.raises(RaftInvariantBroken, match="R16"):
        check_may_load(is_leader=True)
    check_may_load(is_leader=False)


@pytest.mark.parametrize("seed", range(5))
def test_a_new_observer_joins_behind_a_cleaned_log(seed: int) -> None:
    """B-S05, B-S06, B-S08: the snapshot in pieces from whoever leads, through a change of leaders in the middle."""
    cluster = static_cluster(1, 2, 3, seed=seed, retention_bytes=1, snapshot_fetch_max_bytes=20)
    leader = cluster.elect()
    for number in range(5):
        cluster.run_committed(cluster.offer(leader, b"%d" % number))
    for node_id in (1, 2, 3):
        member = cluster.members[node_id]
        for end in (3, 5):
            name = OffsetAndEpoch(end, member.log.batches[end - 1][2])
            made = build_snapshot((b"image" * 20,), snapshot_id=name, last_contained_log_timestamp=1, now_ms=1)
            member.snapshots.put(name, b"".join(bytes(each) for each in made))
        member.log.delete_segments_below(5)
    cluster.add(config(9, static(1, 2, 3), is_controller=False))
    cluster.run_for(25)
    assert not cluster.members[9].loaded
    cluster.stop(leader)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"last"), 9)
    assert cluster.members[9].loaded == [LoadSnapshot(snapshot_id=OffsetAndEpoch(5, 1))]
    assert not isinstance(cluster.members[9].raft.role, Prospective)


def test_the_metadata_topic_is_known_by_its_id() -> None:
    """B-R01: answers about anything else are no answers."""
    fed = Fed()
    other = fetch.FetchableTopicResponse(topic_id=Uuid(b"x" * 16), partitions=(fetch.PartitionData(),))
    fed.answer(fetch.FetchResponse(responses=(other,)))
    fed.step(TimeAdvanced(now_ms=1_100))
    assert fed.node.log_end == 0
