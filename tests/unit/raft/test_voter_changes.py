"""How are voters added, removed and updated while the quorum works (KIP-853)?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.raft.events import KRaftVersionRequested
from headrace.raft.roles import Follower, Leader
from headrace.raft.voters import VoterEndPoint
from tests.support.raft_cluster import (
    RaftCluster,
    add_voter,
    directory_id,
    dynamic_cluster,
    dynamic_config,
    remove_voter,
    static_cluster,
)


def grown(seed: int = 1) -> tuple[RaftCluster, int]:
    """Voter 1 alone leads; 2 and 3 observe."""
    cluster = dynamic_cluster(1, observers=(2, 3), seed=seed)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"first"))
    return cluster, leader


@pytest.mark.parametrize("seed", range(5))
def test_a_standalone_controller_grows_to_three_and_shrinks(seed: int) -> None:
    """S4-37, B-R24, B-R25, B-R23: each voter in turn; the new majority commits; the leader removes itself and another leads."""
    cluster, leader = grown(seed)
    for node_id in (2, 3):
        answer = cluster.answer(leader, add_voter(cluster.members[node_id].config))
        assert answer.error_code == ErrorCode.NONE
    assert cluster.members[1].raft.voters.ids == (1, 2, 3)
    cluster.run_committed(cluster.offer(leader, b"three of us"))
    cluster.stop(2)
    cluster.run_committed(cluster.offer(leader, b"two are enough"), 1, 3)
    cluster.start(2)
    assert cluster.answer(leader, remove_voter(leader)).error_code == ErrorCode.NONE
    cluster.run_until(lambda: cluster.leaders() not in ([], [leader]), within_ms=10_000)
    next_leader = cluster.elect()
    assert next_leader != leader
    assert cluster.members[next_leader].raft.voters.ids == (2, 3)
    cluster.run_committed(cluster.offer(next_leader, b"without it"))
    assert isinstance(cluster.members[leader].raft.role, Follower)
    assert not cluster.members[leader].raft.is_voter
    cluster.check_logs()


def refused(cluster: RaftCluster, node_id: int, request: object) -> ErrorCode:
    """The error a tool gets at once."""
    answer = cluster.answer(node_id, request, within_ms=0)
    return ErrorCode(answer.error_code)


def test_additions_that_are_refused() -> None:
    """B-R24: another cluster, no leader, no directory, no listener, a voter twice, one change at a time."""
    cluster, leader = grown()
    joining = add_voter(cluster.members[2].config)
    assert refused(cluster, leader, replace_fields(joining, cluster_id="x")) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert refused(cluster, 2, joining) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(cluster, leader, replace_fields(joining, voter_directory_id=ZERO_UUID)) is ErrorCode.INVALID_REQUEST
    assert refused(cluster, leader, replace_fields(joining, listeners=())) is ErrorCode.INVALID_REQUEST
    assert refused(cluster, leader, add_voter(cluster.members[1].config)) is ErrorCode.DUPLICATE_VOTER
    waiting = cluster.ask(leader, joining)
    assert refused(cluster, leader, add_voter(cluster.members[3].config)) is ErrorCode.REQUEST_TIMED_OUT
    cluster.run_until(lambda: waiting in cluster.answers)
    assert cluster.answers[waiting].error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def replace_fields(request: Any, **changes: object) -> object:
    """The same message with other values."""
    names = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")
    return type(request)(**{**{name: getattr(request, name) for name in names}, **changes})


def test_a_voter_that_does_not_know_the_level_is_refused() -> None:
    """B-R24: the new voter's ApiVersions must cover the kraft.version in force: INVALID_REQUEST."""
    cluster, leader = grown()
    cluster.stop(2)
    cluster.start(2, max_kraft_version=0)
    answer = cluster.answer(leader, add_voter(cluster.members[2].config))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "kraft.version range (min: 0, max: 0)" in answer.error_message


def test_a_voter_that_cannot_be_reached_times_out_and_harms_nobody() -> None:
    """B-R24, fault:S71: REQUEST_TIMED_OUT after the request's own time; the voters stay."""
    cluster, leader = grown()
    cluster.stop(3)
    began = cluster.now_ms
    answer = cluster.answer(leader, add_voter(cluster.members[3].config, timeout_ms=5_000))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.now_ms - began == 5_000
    assert cluster.members[1].raft.voters.ids == (1,)


def test_nobody_keeps_others_from_changing_voters_for_long() -> None:
    """B-R24, inv:RL4: whatever time the request names; who asked may be long gone."""
    cluster, leader = grown()
    cluster.stop(3)
    began = cluster.now_ms
    lost = add_voter(cluster.members[3].config, timeout_ms=2**31 - 1)
    assert cluster.answer(leader, lost, within_ms=70_000).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.now_ms - began == 60_000
    assert cluster.answer(leader, add_voter(cluster.members[2].config)).error_code == ErrorCode.NONE


def test_an_addition_ends_with_the_leadership() -> None:
    """B-R24: who waits is told to look elsewhere."""
    cluster, leader = grown()
    for node_id in (2, 3):
        cluster.answer(leader, add_voter(cluster.members[node_id].config))
    cluster.add(dynamic_config(4, 1))
    cluster.run_for(100)
    waiting = cluster.ask(
        leader, add_voter(replace(cluster.members[4].config, end_points=(VoterEndPoint("CONTROLLER", "nowhere", 1),)))
    )
    cluster.isolate(leader)
    cluster.run_until(lambda: waiting in cluster.answers)
    assert cluster.answers[waiting].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[attr-defined]


def test_removals_that_are_refused() -> None:
    """B-R25: a stranger, another directory, and the last voter: VOTER_NOT_FOUND."""
    cluster, leader = grown()
    assert refused(cluster, leader, remove_voter(9)) is ErrorCode.VOTER_NOT_FOUND
    other = remove_voter(1, voter_directory_id=directory_id(9))
    assert refused(cluster, leader, other) is ErrorCode.VOTER_NOT_FOUND
    assert refused(cluster, leader, remove_voter(1)) is ErrorCode.VOTER_NOT_FOUND
    assert refused(cluster, 2, remove_voter(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_static_quorum_changes_no_voters() -> None:
    """B-R24, B-R25: kraft.version 0 refuses with UNSUPPORTED_VERSION(35)."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    added = add_voter(dynamic_config(4, 1))
    assert refused(cluster, leader, added) is ErrorCode.UNSUPPORTED_VERSION
    assert refused(cluster, leader, remove_voter(2)) is ErrorCode.UNSUPPORTED_VERSION


def test_a_voter_that_moved_tells_the_leader() -> None:
    """S4-15, B-R26: UpdateRaftVoter after the restart on another port; the log names the new place."""
    cluster, leader = grown()
    for node_id in (2, 3):
        cluster.answer(leader, add_voter(cluster.members[node_id].config))
    moved = VoterEndPoint("CONTROLLER", "elsewhere2", 9193)
    cluster.stop(2)
    cluster.start(2, end_points=(moved,))

    def is_known() -> bool:
        voter = cluster.members[3].raft.voters.find(2)
        return voter is not None and voter.end_points == (moved,)

    cluster.run_until(is_known, within_ms=10_000)
    cluster.stop(leader)
    assert cluster.elect() in (2, 3)


def test_a_controller_that_may_join_becomes_a_voter_by_itself() -> None:
    """KIP-853, B-R24: controller.quorum.auto.join.enable; and again with a new disk: the former voter of its id goes first."""
    cluster, leader = grown()
    cluster.add(dynamic_config(4, 1, auto_join=True))
    cluster.run_until(lambda: cluster.members[1].raft.voters.ids == (1, 4), within_ms=20_000)
    cluster.run_committed(cluster.offer(leader, b"of two"))
    cluster.run_until(lambda: cluster.answer(leader, add_voter(cluster.members[2].config)).error_code == 0)
    cluster.stop(4)
    cluster.add(dynamic_config(4, 1, auto_join=True, directory_id=directory_id(44)))

    def has_joined() -> bool:
        voter = cluster.members[1].raft.voters.find(4)
        return voter is not None and voter.directory_id == directory_id(44)

    cluster.run_until(has_joined, within_ms=30_000)


def test_a_replaced_voter_finds_the_present_quorum() -> None:
    """S4-12, S4-18: 2 and 3 were replaced by 4 and 5 while 2 was down; 2 starts on its old log and ends as an observer."""
    cluster, leader = grown()
    for node_id in (2, 3):
        cluster.answer(leader, add_voter(cluster.members[node_id].config))
    cluster.stop(2)
    for node_id in (4, 5):
        cluster.add(dynamic_config(node_id, 1))
        cluster.run_for(500)
        assert cluster.answer(leader, add_voter(cluster.members[node_id].config)).error_code == ErrorCode.NONE
    for node_id in (2, 3):
        assert cluster.answer(leader, remove_voter(node_id)).error_code == ErrorCode.NONE
    cluster.stop(3)
    cluster.start(2)
    cluster.run_committed(cluster.offer(cluster.elect(), b"for all"), 1, 2, 4, 5)
    assert isinstance(cluster.members[2].raft.role, Follower)
    assert not cluster.members[2].raft.is_voter


def test_a_static_quorum_becomes_dynamic() -> None:
    """B-R23: kraft.version 0 -> 1 once every voter told its end points and levels; then voters may change; never back."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()

    def ask(level: int, *, validate_only: bool = False) -> Any:
        event = KRaftVersionRequested(token=1, level=level, validate_only=validate_only, now_ms=cluster.now_ms)
        effects = cluster.members[leader].raft.step(event)
        for effect in effects:
            cluster._effect(leader, effect)
        [answer] = [each for each in effects if type(each).__name__ == "AnswerKRaftVersion"]
        return answer

    early = ask(1)
    assert early.error is ErrorCode.INVALID_UPDATE_VERSION
    cluster.run_for(5_000)
    assert ask(1, validate_only=True).error is ErrorCode.NONE
    assert cluster.members[leader].raft.kraft_version == 0
    assert ask(1).error is ErrorCode.NONE
    end = cluster.members[leader].raft.log_end
    cluster.run_committed(end)
    voters = cluster.members[leader].raft.voters
    assert voters.kraft_version == 1
    assert [each.directory_id for each in voters.voters] == [directory_id(each) for each in (1, 2, 3)]
    assert ask(0).error is ErrorCode.INVALID_UPDATE_VERSION
    assert ask(1).error is ErrorCode.NONE
    others = [each for each in (1, 2, 3) if each != leader]
    replicas = cluster.members[leader].raft.replicas
    assert replicas is not None
    assert replicas.observers(cluster.now_ms) == []
    assert cluster.answer(leader, remove_voter(others[0])).error_code == ErrorCode.NONE
    assert isinstance(cluster.members[leader].raft.role, Leader)
    assert cluster.members[others[1]].raft.voters.ids == tuple(sorted((leader, others[1])))


def test_all_voters_may_move_at_once_when_bootstrap_servers_are_right() -> None:
    """S4-16, S4-17: nobody listens any more where the log says; votes go to the bootstrap servers, which check whom they are for."""
    cluster, leader = grown()
    for node_id in (2, 3):
        cluster.answer(leader, add_voter(cluster.members[node_id].config))
    cluster.run_committed(cluster.offer(leader, b"before"))
    for node_id in (1, 2, 3):
        cluster.stop(node_id)
    servers = tuple((f"new{node_id}", 9093) for node_id in (1, 2, 3))
    for node_id in (1, 2, 3):
        moved = VoterEndPoint("CONTROLLER", f"new{node_id}", 9093)
        cluster.start(node_id, end_points=(moved,), bootstrap_servers=servers)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"after"))


def test_a_leader_whose_removal_nobody_else_holds_is_elected_once_more_to_commit_it() -> None:
    """B-R25, Raft 4.2.2: with two voters, the one that stays holds less and could never win; nobody else would ever lead."""
    cluster = dynamic_cluster(1, 2)
    leader = cluster.elect()
    cluster.run_committed(cluster.offer(leader, b"before"))
    [other] = [each for each in (1, 2) if each != leader]
    cluster.isolate(other)
    cluster.ask(leader, remove_voter(leader))
    cluster.run_for(15_000)
    assert cluster.leaders() == []
    cluster.heal()
    cluster.run_until(lambda: cluster.leaders() == [other], within_ms=20_000)
    cluster.run_committed(cluster.offer(other, b"after"))
    assert cluster.members[leader].raft.voters.ids == (other,)
    assert isinstance(cluster.members[leader].raft.role, Follower)
