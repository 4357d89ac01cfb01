"""Does an observer find the next leader although the one it follows only went silent?"""

from __future__ import annotations

from headrace.core.peers import SendFailure
from headrace.raft.events import (
    NodeStarted,
    QuorumState,
    RaftEffect,
    RaftRequestArrived,
    RaftRequestFailed,
    SendRaftRequest,
    TimeAdvanced,
)
from headrace.raft.voters import VoterSet, static_voters
from tests.support.forged_packets import NOWHERE, forged_begin
from tests.support.raft import DIRECTORY_ID, RaftBench

VOTERS = static_voters({1: ("one", 1), 2: ("two", 2), 3: ("three", 3)}, "CONTROLLER")


class Observer(RaftBench):
    """Node 9 follows leader 1 of epoch 1; it is a broker."""

    def __init__(self, voters: VoterSet = VOTERS) -> None:
        super().__init__(voters=voters, state=QuorumState(leader_epoch=1, leader_id=1), node_id=9, is_controller=False)
        self.flying: dict[int, SendRaftRequest] = {}

    def note(self, effects: list[RaftEffect]) -> list[int]:
        """Whom requests went to."""
        sent = [each for each in effects if isinstance(each, SendRaftRequest)]
        self.flying.update({each.correlation: each for each in sent})
        return [each.to.node_id for each in sent]

    def fail(self, node_id: int) -> list[int]:
        """The request to a node had no answer; whom is asked next."""
        correlation = next(number for number, each in self.flying.items() if each.to.node_id == node_id)
        del self.flying[correlation]
        failed = RaftRequestFailed(correlation=correlation, failure=SendFailure.TIMED_OUT, now_ms=self.now_ms)
        return self.note(self.run(failed))


def test_a_leader_is_looked_for_where_the_log_has_it_when_a_request_told_another_address() -> None:
    """promise PR8: of a quorum of one voter an observer knows nobody else; a forged BeginQuorumEpoch had it ask where nobody listens, for good."""
    bench = Observer(static_voters({1: ("one", 1)}, "CONTROLLER"))
    assert bench.note(bench.run(NodeStarted(now_ms=bench.now_ms))) == [1]
    forged = RaftRequestArrived(
        request=forged_begin(1, DIRECTORY_ID, 1),
        api_version=1,
        listener="CONTROLLER",
        token=7,
        now_ms=bench.now_ms,
    )
    bench.note(bench.run(forged))
    asked = []
    for _ in range(8):
        asked += [each.to.host for each in bench.flying.values()]
        while bench.flying:
            bench.fail(1)
        bench.now_ms += 1_000
        bench.note(bench.run(TimeAdvanced(now_ms=bench.now_ms)))
    assert set(asked[:1]) == {"one"}
    assert set(asked[1:]) == {NOWHERE[1], "one"}


def test_others_are_asked_while_a_silent_leader_is_asked_again() -> None:
    """S4-28, S4-34, B-K11: one that was silent may be so for another timeout; nobody tells an observer who leads next."""
    bench = Observer()
    assert bench.note(bench.run(NodeStarted(now_ms=bench.now_ms))) == [1]
    bench.now_ms += 2_000
    [first] = bench.fail(1)
    assert first in (2, 3)
    bench.now_ms += 100
    assert bench.note(bench.run(TimeAdvanced(now_ms=bench.now_ms))) == [1]
    asked = bench.fail(first)
    bench.now_ms += 1_000
    asked += bench.note(bench.run(TimeAdvanced(now_ms=bench.now_ms)))
    assert asked
    assert set(asked) <= {2, 3}
