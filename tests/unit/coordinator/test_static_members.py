"""Members that keep their place over restarts (KIP-345, KIP-814)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.coordinator.groups.group import GroupState
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupRequest
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.coordinator.group_bench import GROUP, REBALANCE_MS, SESSION_MS, Bench, Joined, join_request


def test_a_static_member_needs_no_id_first() -> None:
    """KIP-345: its instance id is its identity."""
    bench = Bench()
    token = bench.start_join(instance="one")
    bench.pass_time(3_000)
    assert bench.joined(token).member_id == "one-id1"


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """KIP-345: same protocol, same generation, same assignment, a new member id."""
    bench = Bench()
    leader, follower = bench.stable_group(instances=("one", "two"))
    answer = bench.ask(join_request(instance=follower.instance))
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (ErrorCode.NONE, 1, False)
    back = Joined(answer.member_id, 1, answer.leader, follower.instance)
    assert back.member_id != follower.member_id
    assert bench.answers[bench.sync(back)].assignment == f"a-{follower.member_id}".encode()
    assert bench.heartbeat(leader) == ErrorCode.NONE


def test_a_static_leader_that_comes_back_skips_the_assignment() -> None:
    """KIP-814: from version 9 on it learns that it leads, and that it must not assign."""
    bench = Bench()
    leader, _ = bench.stable_group(instances=("one", "two"))
    answer = bench.ask(join_request(instance=leader.instance), version=9)
    assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, answer.member_id, 2)


def test_an_old_static_leader_is_not_told_that_it_leads() -> None:
    """KIP-345: before KIP-814 the answer names the former leader id, so that nobody assigns anew."""
    bench = Bench()
    leader, _ = bench.stable_group(instances=("one", "two"))
    answer = bench.ask(join_request(instance=leader.instance), version=8)
    assert (answer.skip_assignment, answer.leader, answer.members) == (False, leader.member_id, ())


@pytest.mark.parametrize("api", ["heartbeat", "sync", "commit", "join", "leave"])
def test_the_old_incarnation_is_fenced(api: str) -> None:
    """G3: FENCED_INSTANCE_ID for whoever still uses the old member id."""
    bench = Bench()
    (old,) = bench.stable_group(instances=("one",))
    bench.ask(join_request(instance="one"))
    before = len(bench.log)
    attempts: dict[str, Callable[[], int]] = {
        "heartbeat": lambda: bench.heartbeat(old),
        "sync": lambda: int(bench.answers[bench.sync(old, {})].error_code),
        "commit": lambda: bench.commit(9, old),
        "join": lambda: int(bench.ask(join_request(old.member_id, instance="one")).error_code),
        "leave": lambda: bench.leave(old)[0],
    }
    code = attempts[api]()
    assert (code, len(bench.log)) == (ErrorCode.FENCED_INSTANCE_ID, before)


def test_an_old_incarnation_that_waits_is_fenced_there() -> None:
    """G3: its JoinGroup is answered when the new one takes its place."""
    bench = Bench()
    first = bench.start_join(instance="one")
    second = bench.start_join(instance="one")
    assert bench.answers[first].error_code == ErrorCode.FENCED_INSTANCE_ID
    bench.pass_time(6_000)
    assert bench.joined(second).generation_id == 1


def test_a_static_member_with_another_protocol_starts_a_rebalance() -> None:
    """KIP-345: when the choice of protocol would change, all join again."""
    bench = Bench()
    (_,) = bench.stable_group(instances=("one",))
    token = bench.start_join(instance="one", protocols=(("sticky", b""), ("range", b"")))
    assert bench.joined(token).generation_id == 2
    assert bench.answers[token].protocol_name == "sticky"


def test_a_static_member_that_comes_back_during_assignment_restarts_it() -> None:
    """KIP-345: in CompletingRebalance the others are told to join again."""
    bench = Bench()
    tokens = [bench.start_join(instance=name) for name in ("one", "two")]
    bench.pass_time(6_000)
    two = bench.joined(tokens[1], instance="two")
    waiting = bench.sync(two)
    bench.start_join(instance="one")
    assert bench.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.group.is_in(GroupState.PREPARING_REBALANCE)


def test_a_rebalance_keeps_static_members_that_did_not_join_in_time() -> None:
    """KIP-345: they lose their place at the session timeout, not at the rebalance timeout."""
    bench = Bench()
    leader, follower = bench.stable_group(instances=("one", "two"))
    token = bench.start_join(leader.member_id, instance="one", rebalance_timeout_ms=7_000)
    bench.group.members[follower.member_id].rebalance_timeout_ms = 7_000
    while token not in bench.answers:
        bench.heartbeat(follower)
        bench.pass_time(1_000)
    assert bench.joined(token).generation_id == 2
    assert set(bench.group.static_members) >= {"two"}


def test_a_static_member_that_stays_away_is_out_after_its_session() -> None:
    """KIP-345: only the session timeout ends it."""
    bench = Bench()
    bench.stable_group(instances=("one",))
    bench.pass_time(SESSION_MS)
    assert bench.group.is_in(GroupState.EMPTY)


def test_an_administrator_sends_a_static_member_away() -> None:
    """KIP-345: by the instance id alone."""
    bench = Bench()
    bench.stable_group(instances=("one", "two"))
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=(MemberIdentity(group_instance_id="two"), MemberIdentity(group_instance_id="three"), MemberIdentity()),
    )
    answer = bench.ask(request, version=5)
    assert [each.error_code for each in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(bench.group.static_members) == ["one"]


def test_an_unknown_instance_with_a_member_id_is_nobody() -> None:
    """G3: a static identity that the group never gave a place."""
    bench = Bench()
    bench.stable_group(instances=("one",))
    assert bench.ask(join_request("m", instance="nine")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_old_incarnation_returns_when_the_change_could_not_be_stored() -> None:
    """B28: the new one is told to try again, the old one goes on."""
    bench = Bench()
    (old,) = bench.stable_group(instances=("one",))
    bench.holds_log = True
    token = bench.start_join(instance="one", protocols=(("range", b"changed"),))
    assert token not in bench.answers
    bench.fail_next(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.answers[token].error_code == ErrorCode.NOT_COORDINATOR
    assert bench.heartbeat(old) == ErrorCode.NONE
    assert bench.group.members[old.member_id].protocols == {"range": b"sub"}


def test_a_rebalance_overtakes_a_change_that_could_not_be_stored() -> None:
    """GL1: who has joined the next generation meanwhile stays, and none of its requests is lost."""
    bench = Bench()
    leader, _ = bench.stable_group(instances=("one", "two"))
    bench.holds_log = True
    token = bench.start_join(instance="two")
    bench.start_join(leader.member_id, instance="one")
    back = bench.joined(token, instance="two")
    assert back.generation_id == 2
    waiting = bench.sync(back)
    bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert back.member_id in bench.group.members
    bench.holds_log = False
    bench.sync(bench.joined(max(bench.answers.keys() - {token}), instance="one"), {back.member_id: b"mine"})
    assert bench.answers[waiting].assignment == b"mine"


def test_a_static_place_survives_a_restart() -> None:
    """B-P06: instance ids are in the record; the member comes back to a restarted coordinator without a rebalance."""
    bench = Bench()
    bench.stable_group(instances=("one", "two"))
    restarted = bench.restarted()
    answer = restarted.ask(join_request(instance="two"))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)


def test_a_pending_id_with_an_instance_is_no_way_in() -> None:
    """B23: an id that was given to a dynamic member, used with an instance id."""
    bench = Bench()
    member_id = bench.answers[bench.start_join()].member_id
    request: JoinGroupRequest = join_request(member_id, instance="one")
    assert bench.ask(request).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    bench.pass_time(REBALANCE_MS)
    assert bench.group.members == {}
