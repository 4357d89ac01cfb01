"""Does a node ask for votes only with what its disk holds?

A voter gives its vote to the same candidate again when that asks again after a restart, whatever its log holds by then. So what a candidate
says of its log must survive a power cut.
"""

from __future__ import annotations

from typing import Any

from headrace.raft.events import (
    FlushLog,
    LinkLost,
    LogFlushed,
    NodeStarted,
    QuorumState,
    RaftEffect,
    RecordsOffered,
    ResignRequested,
    SendRaftRequest,
    TimeAdvanced,
)
from headrace.raft.replication import record_batch
from headrace.raft.roles import Candidate, Leader, Prospective
from headrace.wire.messages.vote import VoteRequest
from tests.support.memory_log import MemoryLog
from tests.support.raft import RaftBench
from tests.support.raft_cluster import RaftCluster, config, static

VOTERS = static(1, 2, 3)


class LateSyncs(RaftCluster):
    """A cluster in which the metadata log of some nodes is synced `late` ms after it was ordered; their quorum state is not."""

    late: dict[int, int]

    def __init__(self, **changes: Any) -> None:
        self.late = {}
        super().__init__(*(config(each, VOTERS) for each in (1, 2, 3)), **changes)

    def _effect(self, node_id: int, effect: RaftEffect) -> None:
        member = self.members[node_id]
        if isinstance(effect, FlushLog) and node_id in self.late:
            self._later(self.late[node_id], "flushed", node_id, member.run, member.log.log_end_offset)
        else:
            super()._effect(node_id, effect)


def test_a_power_cut_in_an_election_loses_nothing_that_was_acknowledged() -> None:
    """inv:R7, inv:R18, fault:S52: the leader dies; of the two that are left one has the newest record in its page cache only.

    It asks for votes first, and loses power when it has the other's vote and does not know it yet.
    """
    cluster = LateSyncs()
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"before"))
    candidate, other = sorted({1, 2, 3} - {leader})
    cluster.late[candidate] = 10_000
    end = cluster.offer(leader, b"acknowledged")
    cluster.run_committed(end, leader, other)
    late = cluster.members[candidate].log
    assert (late.log_end_offset, late.durable_end_offset) == (end, end - 1)
    cluster.stop(leader)
    for node_id in (candidate, other):
        cluster.step(node_id, LinkLost(node_id=leader, now_ms=cluster.now_ms))
    asked = cluster.members[other]
    cluster.run_until(lambda: asked.state.voted_id == candidate or isinstance(asked.raft.role, Leader))
    cluster.stop(candidate, is_lossy=True)
    cluster.late.clear()
    cluster.start(candidate)
    again = cluster.elect()
    kept = b"".join(data for _, _, _, data in cluster.members[again].log.batches)
    assert b"acknowledged" in kept


def votes_asked(effects: list[RaftEffect]) -> list[bool]:
    """For each vote that is asked for, whether it is only a question."""
    requests = [each.request for each in effects if isinstance(each, SendRaftRequest)]
    return [each.topics[0].partitions[0].pre_vote for each in requests if isinstance(each, VoteRequest)]


def unsynced() -> MemoryLog:
    """What a process that was killed left in the page cache."""
    log = MemoryLog()
    log.append_as_follower(
        memoryview(record_batch((b"r",), base_offset=0, epoch=2, now_ms=1)), leader_epoch=2, now_ms=1
    )
    return log


def test_a_voter_alone_stands_when_its_log_is_on_disk() -> None:
    """inv:R7, B-R14: after a kill the log is synced first; the epoch does not rise before."""
    bench = RaftBench(log=unsynced(), state=QuorumState(leader_epoch=2, leader_id=1))
    effects = bench.step(NodeStarted(now_ms=bench.now_ms))
    assert FlushLog() in effects
    assert (type(bench.node.role), bench.node.epoch) == (Prospective, 2)
    bench.flush()
    assert (type(bench.node.role), bench.node.epoch) == (Candidate, 3)


def test_a_candidate_that_starts_again_asks_when_its_log_is_on_disk() -> None:
    """inv:R7, S4-27: it was a candidate when it was killed; its vote for itself is on disk, the log may not be."""
    bench = RaftBench(log=unsynced(), state=QuorumState(leader_epoch=3, voted_id=1), voters=VOTERS)
    effects = bench.step(NodeStarted(now_ms=bench.now_ms))
    assert isinstance(bench.node.role, Candidate)
    assert votes_asked(effects) == []
    assert FlushLog() in effects
    effects = bench.step(LogFlushed(upto=bench.log.flush(), now_ms=bench.now_ms))
    assert votes_asked(effects) == [False, False]


def test_what_was_written_during_a_sync_is_synced_too_before_a_former_leader_stands() -> None:
    """inv:R7, B-R17: it resigned while one sync was under way and more had been written since."""
    bench = RaftBench()
    bench.start()
    first = bench.node.next_offset
    for offset in (first, first + 1):
        bench.step(RecordsOffered(records=(b"r",), base_offset=offset, epoch=1, now_ms=bench.now_ms))
    bench.now_ms += 25
    bench.step(TimeAdvanced(now_ms=bench.now_ms))
    assert bench.log.log_end_offset == first + 2
    bench.step(ResignRequested(epoch=1, now_ms=bench.now_ms))
    bench.now_ms += 5_000
    bench.step(TimeAdvanced(now_ms=bench.now_ms))
    assert isinstance(bench.node.role, Prospective)
    assert FlushLog() in bench.step(LogFlushed(upto=first + 1, now_ms=bench.now_ms))
    bench.flush()
    assert bench.node.epoch == 2
