"""A quorum of one voter: elections, commits, shutdown, snapshots of the log."""

from __future__ import annotations

import pytest

from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.events import (
    FlushLog,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipClaimed,
    LeadershipLost,
    NodeStarted,
    QuorumState,
    RecordsOffered,
    ResignRequested,
    ShutdownBegan,
    SnapshotCreated,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.roles import Candidate, Leader, Resigned
from headrace.raft.snapshots import build_snapshot
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet
from headrace.records.control import ControlType, control_type
from headrace.records.record import read_all_records
from headrace.wire.codec import decode
from headrace.wire.raft_records.leader_change_message import LeaderChangeMessage
from headrace.wire.raft_records.leader_change_message import Voter as NamedVoter
from tests.support.memory_log import MemorySnapshots
from tests.support.raft import CONFIG, DIRECTORY_ID, RaftBench


def stores(*, leader_epoch: int, leader_id: int = -1, voted_id: int = -1) -> StoreQuorumState:
    """The effect that stores this state in a static quorum of the one voter."""
    state = QuorumState(leader_epoch=leader_epoch, leader_id=leader_id, voted_id=voted_id)
    return StoreQuorumState(state=state, voter_ids=(1,))


def offer(bench: RaftBench, *records: bytes, base_offset: int | None = None, epoch: int = 1) -> RecordsOffered:
    """Records that the controller wants in the log, where it goes on."""
    base = bench.log.log_end_offset if base_offset is None else base_offset
    return RecordsOffered(records=records, base_offset=base, epoch=epoch, now_ms=bench.now_ms)


def test_the_own_vote_is_on_disk_before_it_counts() -> None:
    """B-R03: nothing is written and nobody leads until the vote is stored."""
    bench = RaftBench()
    effects = bench.step(NodeStarted(now_ms=1_000))
    assert effects == [stores(leader_epoch=1, voted_id=1)]
    assert isinstance(bench.node.role, Candidate)
    assert bench.node.leader_id == -1
    assert bench.log.batches == []
    assert StoreQuorumState(state=QuorumState()).durable


def test_nobody_leads_before_that_is_on_disk() -> None:
    """R13, B-R03: elected by its own vote, the node writes nothing until its leadership is stored."""
    bench = RaftBench()
    [vote] = bench.step(NodeStarted(now_ms=1_000))
    assert isinstance(vote, StoreQuorumState)
    assert bench.store(vote) == [stores(leader_epoch=1, leader_id=1)]
    assert isinstance(bench.node.role, Candidate)
    assert bench.log.batches == []


def test_one_voter_elects_itself_and_claims_when_its_first_record_is_durable() -> None:
    """B-R02, B-R14, B-R15: vote, lead, LeaderChange, flush, commit, claim: in this order."""
    bench = RaftBench()
    assert bench.start() == [
        stores(leader_epoch=1, voted_id=1),
        stores(leader_epoch=1, leader_id=1),
        LeaderChanged(leader_id=1, epoch=1, end_points=CONFIG.end_points),
        FlushLog(),
        HighWatermarkAdvanced(to=1),
        LeadershipClaimed(epoch=1, next_offset=1),
    ]
    assert bench.node.role == Leader(epoch=1, epoch_start_offset=0, granting_voters=(1,), is_claimed=True)


def test_the_first_record_of_an_epoch_is_the_leader_change() -> None:
    """B-R15: type 2, version 0, the voters and who granted; every batch carries the epoch (B-R01)."""
    bench = RaftBench()
    bench.start()
    [(header, [record])] = list(read_all_records(bench.log.batches[0][3]))
    assert (header.is_control, header.leader_epoch, header.base_offset) == (True, 1, 0)
    assert control_type(record.key) is ControlType.LEADER_CHANGE
    assert decode(LeaderChangeMessage, record.value or b"", 0) == LeaderChangeMessage(
        version=0, leader_id=1, voters=(NamedVoter(voter_id=1),), granting_voters=(NamedVoter(voter_id=1),)
    )


def test_dynamic_voters_go_from_the_zero_snapshot_into_the_log() -> None:
    """B-S10, KIP-853: LeaderChange, KRaftVersion and Voters in the first batch; not again in the next epoch."""
    voters = VoterSet(
        voters=(Voter(voter_id=1, directory_id=DIRECTORY_ID, end_points=(VoterEndPoint("C", "h", 9),)),),
        kraft_version=1,
    )
    bench = RaftBench(voters=voters)
    bench.start()
    [(_, records)] = list(read_all_records(bench.log.batches[0][3]))
    kinds = [control_type(record.key) for record in records]
    assert kinds == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    again = RaftBench(log=bench.log.crash(), state=bench.state, voters=voters)
    again.start()
    [(_, records)] = list(read_all_records(again.log.batches[-1][3]))
    assert [control_type(record.key) for record in records] == [ControlType.LEADER_CHANGE]


def test_nothing_is_committed_before_it_is_flushed() -> None:
    """B-R14: the leader counts itself only after its own flush."""
    bench = RaftBench()
    bench.start()
    assert bench.step(offer(bench, b"a", b"b")) == [FlushLog()]
    assert (bench.log.log_end_offset, bench.node.high_watermark) == (3, 1)
    assert bench.flush() == [HighWatermarkAdvanced(to=3)]
    assert bench.node.high_watermark == 3


def test_appends_during_a_flush_share_the_next_one() -> None:
    """B-R14, B-R17, group commit: one flush in flight; what is offered meanwhile is flushed together."""
    bench = RaftBench()
    bench.start()
    assert bench.step(offer(bench, b"a")) == [FlushLog()]
    assert bench.step(offer(bench, b"b", base_offset=2)) == []
    assert bench.step(offer(bench, b"c", base_offset=3)) == []
    assert bench.log.log_end_offset == 2
    assert bench.flush() == [HighWatermarkAdvanced(to=2), FlushLog()]
    assert bench.log.log_end_offset == 4
    assert bench.flush() == [HighWatermarkAdvanced(to=4)]


def test_waiting_records_are_written_when_the_linger_time_is_over() -> None:
    """B-R17: with a flush in flight records wait at most the linger time; they are not flushed twice at once."""
    bench = RaftBench(append_linger_ms=25)
    bench.start()
    bench.step(offer(bench, b"a"))
    bench.step(offer(bench, b"b", base_offset=2))
    assert bench.node.next_deadline_ms() == 1_025
    assert bench.step(TimeAdvanced(now_ms=1_024)) == []
    assert bench.log.log_end_offset == 2
    assert bench.step(TimeAdvanced(now_ms=1_025)) == []
    assert bench.log.log_end_offset == 3
    assert bench.node.next_deadline_ms() is None


def test_many_waiting_bytes_are_written_at_once() -> None:
    """B-R01: the accumulator is bounded."""
    bench = RaftBench(max_batch_bytes=200)
    bench.start()
    bench.step(offer(bench, b"a"))
    bench.step(offer(bench, b"b" * 300, base_offset=2))
    assert bench.log.log_end_offset == 3


def test_an_append_is_one_batch() -> None:
    """B-C22, C4: records that are offered together become visible together."""
    bench = RaftBench()
    bench.start()
    bench.run(offer(bench, b"a", b"b", b"c"))
    bench.run(offer(bench, b"d"))
    found = [(each.base_offset, each.last_offset, each.records) for each in bench.node.read_committed(0, 99)]
    assert found == [(0, 0, ()), (1, 3, (b"a", b"b", b"c")), (4, 4, (b"d",))]
    assert {(each.epoch, each.timestamp) for each in bench.node.read_committed(0, 99)} == {(1, 1_000)}


def test_records_for_another_epoch_are_not_appended() -> None:
    """C1: only the leader of the epoch writes."""
    bench = RaftBench()
    bench.start()
    assert bench.step(offer(bench, b"a", epoch=2)) == []
    assert bench.log.log_end_offset == 1


def test_a_lost_page_cache_loses_nothing_committed() -> None:
    """B-R14, S50: after a power cut the log holds at least what was committed, and the epoch rises."""
    bench = RaftBench()
    bench.start()
    bench.run(offer(bench, b"a"))
    committed = bench.node.high_watermark
    bench.step(offer(bench, b"lost"))
    again = RaftBench(log=bench.log.crash(), state=bench.state)
    assert again.log.log_end_offset >= committed
    effects = again.start()
    assert LeadershipClaimed(epoch=2, next_offset=3) in effects
    assert [batch.records for batch in again.node.read_committed(0, 99)] == [(), (b"a",), ()]


def test_a_vote_that_was_stored_is_kept_over_a_crash() -> None:
    """B-R03, S4-27: a crash after the vote, before leading: the node is candidate of that epoch again."""
    bench = RaftBench()
    [store] = bench.step(NodeStarted(now_ms=1_000))
    assert isinstance(store, StoreQuorumState)
    again = RaftBench(log=bench.log.crash(), state=store.state)
    assert again.start()[0] == stores(leader_epoch=1, leader_id=1)


def test_a_leader_that_restarts_never_leads_its_epoch_again() -> None:
    """R13, S4-27, defect:K3: whoever led comes back resigned, and stands in a later epoch."""
    bench = RaftBench()
    bench.start()
    again = RaftBench(log=bench.log.crash(), state=bench.state)
    assert again.node.role == Resigned(epoch=1)
    assert again.start()[0] == stores(leader_epoch=2, voted_id=1)


def test_an_epoch_of_the_log_counts_when_the_state_file_is_older() -> None:
    """B-R03: the epoch never goes back, also when quorum-state was lost."""
    bench = RaftBench()
    bench.start()
    again = RaftBench(log=bench.log.crash(), state=QuorumState())
    assert again.start()[:2] == [stores(leader_epoch=2, voted_id=1), stores(leader_epoch=2, leader_id=1)]


def test_shutdown_gives_up_leadership_for_good() -> None:
    """B-R02: Leader -> Resigned; no election follows while it stops."""
    bench = RaftBench()
    bench.start()
    assert bench.step(ShutdownBegan(now_ms=2_000)) == [
        LeadershipLost(epoch=1, leader_id=-1),
        LeaderChanged(leader_id=-1, epoch=1),
    ]
    assert bench.node.role == Resigned(epoch=1)
    assert bench.node.next_deadline_ms() is None
    assert bench.step(ShutdownBegan(now_ms=2_000)) == []


def test_a_node_that_stops_is_not_elected_any_more() -> None:
    """B-R02: a vote that is stored while the node stops elects nobody."""
    bench = RaftBench()
    [store] = bench.step(NodeStarted(now_ms=1_000))
    assert isinstance(store, StoreQuorumState)
    assert bench.step(ShutdownBegan(now_ms=1_001)) == []
    assert bench.store(store) == []
    assert bench.node.leader_id == -1
    assert bench.step(TimeAdvanced(now_ms=99_999)) == []


def test_a_faulty_controller_resigns_and_the_node_stands_again() -> None:
    """B-R02: Resigned -> Candidate of the next epoch after the election timeout; what was not written is dropped."""
    bench = RaftBench()
    bench.start()
    bench.step(offer(bench, b"a"))
    bench.step(offer(bench, b"dropped", base_offset=2))
    effects = bench.step(ResignRequested(epoch=1, now_ms=2_000))
    assert effects[0] == LeadershipLost(epoch=1, leader_id=-1)
    bench.flush()
    deadline = bench.node.next_deadline_ms()
    assert deadline is not None
    assert 3_000 <= deadline < 4_000
    assert bench.step(TimeAdvanced(now_ms=deadline - 1)) == []
    effects = bench.run(TimeAdvanced(now_ms=deadline))
    assert LeadershipClaimed(epoch=2, next_offset=3) in effects
    assert [batch.records for batch in bench.node.read_committed(0, 99)] == [(), (b"a",), ()]
    assert bench.step(ResignRequested(epoch=1, now_ms=deadline)) == []


def test_a_snapshot_beyond_the_log_replaces_it() -> None:
    """KIP-630: a log that ends below the newest snapshot goes on at the snapshot's end."""
    snapshots = MemorySnapshots()
    snapshots.put(
        OffsetAndEpoch(40, 3),
        b"".join(
            bytes(batch)
            for batch in build_snapshot((), snapshot_id=OffsetAndEpoch(40, 3), last_contained_log_timestamp=1, now_ms=1)
        ),
    )
    bench = RaftBench(snapshots=snapshots, state=QuorumState(leader_epoch=3))
    effects = bench.start()
    assert LeadershipClaimed(epoch=4, next_offset=41) in effects
    assert bench.log.log_start_offset == 40


def test_old_log_goes_only_below_a_snapshot_that_stays() -> None:
    """B-S04: by size, the oldest snapshot and the log below the next one go."""
    bench = RaftBench(retention_bytes=1)
    bench.start()
    for value in (b"a", b"b", b"c"):
        bench.run(offer(bench, value))
    bench.snapshots.put(OffsetAndEpoch(2, 1), b"x" * 10)
    bench.step(SnapshotCreated(end_offset=2, epoch=1, now_ms=2_000))
    assert bench.log.log_start_offset == 0
    bench.snapshots.put(OffsetAndEpoch(3, 1), b"x" * 10)
    bench.step(SnapshotCreated(end_offset=3, epoch=1, now_ms=2_000))
    assert bench.log.log_start_offset == 3
    assert bench.snapshots.ids() == [OffsetAndEpoch(3, 1)]


def test_a_damaged_batch_stops_the_reader() -> None:
    """B-S11: no silent skip."""
    bench = RaftBench()
    bench.start()
    bench.run(offer(bench, b"record"))
    base, end, epoch, data = bench.log.batches[1]
    bench.log.batches[1] = (base, end, epoch, data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    with pytest.raises(StorageFault, match="damaged"):
        list(bench.node.read_committed(0, 99))


def test_a_hole_in_the_log_stops_the_reader() -> None:
    """B-S11: an offset that nothing holds is no end of the log."""
    bench = RaftBench()
    bench.start()
    bench.run(offer(bench, b"record"))
    bench.log.log_start_offset = 1
    with pytest.raises(StorageFault, match="0 is needed"):
        list(bench.node.read_committed(0, 99))
