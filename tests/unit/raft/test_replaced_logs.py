"""What is left of a log that a snapshot took the place of?

A Kafka leader sends its snapshot to whoever last wrote in an epoch before that of its oldest snapshot, also when that log is longer.
"""

from __future__ import annotations

from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.events import NodeStarted, QuorumState, RaftEffect, SendRaftRequest, SnapshotStored
from headrace.raft.replication import record_batch, voters_batch
from headrace.raft.snapshots import build_snapshot
from headrace.raft.voters import Voter, VoterSet
from headrace.records.record import Placement
from headrace.wire.messages.fetch import FetchRequest
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import RaftBench
from tests.support.raft_cluster import directory_id, end_point, static

FOLLOWS = QuorumState(leader_epoch=6, leader_id=2)
AT = OffsetAndEpoch(2, 5)


def dynamic(*node_ids: int) -> VoterSet:
    """Voters of kraft.version 1."""
    voters = (Voter(voter_id=each, directory_id=directory_id(each), end_points=(end_point(each),)) for each in node_ids)
    return VoterSet(voters=tuple(voters), kraft_version=1)


def with_snapshot(voters: VoterSet | None, at: OffsetAndEpoch = AT) -> MemorySnapshots:
    """A whole snapshot, with these voters."""
    made = build_snapshot((), snapshot_id=at, last_contained_log_timestamp=1, now_ms=1, voters=voters)
    snapshots = MemorySnapshots()
    snapshots.put(at, b"".join(bytes(each) for each in made))
    return snapshots


def forked(voters: VoterSet, *, with_level: bool = False) -> MemoryLog:
    """Three records of epoch 3 and a change of voters, all synced; nobody else has them."""
    log = MemoryLog()
    records = record_batch((b"a", b"b", b"c"), base_offset=0, epoch=3, now_ms=1)
    placement = Placement(base_offset=3, leader_epoch=3)
    for batch in (records, voters_batch(voters, with_level=with_level, placement=placement, now_ms=1)):
        log.append_as_follower(memoryview(batch), leader_epoch=3, now_ms=1)
    log.flush()
    return log


def asked_at(effects: list[RaftEffect]) -> list[tuple[int, int]]:
    """Offset and epoch of each fetch."""
    requests = [each.request for each in effects if isinstance(each, SendRaftRequest)]
    parts = [each.topics[0].partitions[0] for each in requests if isinstance(each, FetchRequest)]
    return [(each.fetch_offset, each.last_fetched_epoch) for each in parts]


def test_voters_that_only_the_former_log_named_are_gone_with_it() -> None:
    """B-R24, B-S06, inv:R17: what a leader that was cut off wrote of voters was never committed."""
    bench = RaftBench(log=forked(dynamic(1, 2)), state=FOLLOWS, voters=static(1, 2, 3))
    bench.step(NodeStarted(now_ms=bench.now_ms))
    assert bench.node.voters == dynamic(1, 2)
    bench.snapshots.files = with_snapshot(dynamic(1, 2, 3)).files
    bench.step(SnapshotStored(snapshot_id=AT, is_sound=True, now_ms=bench.now_ms))
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (2, 2)
    assert bench.node.voters == dynamic(1, 2, 3)
    assert bench.node.voter_change is None


def test_an_upgrade_that_only_the_former_log_named_is_gone_with_it() -> None:
    """B-R23, B-S06: a snapshot without voters is of kraft.version 0, and so is the node that loads it."""
    bench = RaftBench(log=forked(dynamic(1, 2, 3), with_level=True), state=FOLLOWS, voters=static(1, 2, 3))
    bench.step(NodeStarted(now_ms=bench.now_ms))
    assert bench.node.kraft_version == 1
    later = OffsetAndEpoch(9, 5)
    bench.snapshots.files = with_snapshot(None, later).files
    bench.step(SnapshotStored(snapshot_id=later, is_sound=True, now_ms=bench.now_ms))
    assert bench.node.voters == static(1, 2, 3)


def test_a_start_finishes_what_a_crash_left_undone() -> None:
    """B-S06, fault:S52, inv:R11: the snapshot got its name, and the log that it was to replace is still there, and longer.

    Its epoch tells: nothing committed is of an earlier epoch than the records before it. To keep the log would be for ever: the leader has
    it cut below the snapshot, or sends the snapshot that is here already.
    """
    bench = RaftBench(
        log=forked(dynamic(1, 2)), snapshots=with_snapshot(dynamic(1, 2, 3)), state=FOLLOWS, voters=static(1, 2, 3)
    )
    effects = bench.step(NodeStarted(now_ms=bench.now_ms))
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.node.high_watermark) == (2, 2, 2)
    assert asked_at(effects) == [AT]
    assert bench.node.voters == dynamic(1, 2, 3)


def test_a_log_that_goes_on_behind_its_snapshot_is_kept() -> None:
    """B-K10, inv:R15: what a node has in the snapshot's epoch or a later one follows it."""
    log = forked(dynamic(1, 2, 3))
    bench = RaftBench(
        log=log, snapshots=with_snapshot(dynamic(1, 2), OffsetAndEpoch(2, 3)), state=FOLLOWS, voters=static(1, 2, 3)
    )
    effects = bench.step(NodeStarted(now_ms=bench.now_ms))
    assert (bench.log.log_end_offset, bench.node.high_watermark) == (4, 2)
    assert asked_at(effects) == [(4, 3)]
    assert bench.node.voters == dynamic(1, 2, 3)
