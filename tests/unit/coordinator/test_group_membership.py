"""Assignments, heartbeats and leaving."""

from __future__ import annotations

from headrace.coordinator.groups.group import GroupState
from headrace.coordinator.groups.image import GroupStored
from headrace.coordinator.groups.machine import RESTORED_A_TURN, GroupCoordinator
from headrace.coordinator.groups.stored import GroupRules
from headrace.coordinator.runtime.events import LoadedRecord, LoadFinished, RecordsLoaded, Resigned, TimePassed
from headrace.coordinator.runtime.machine import Runtime
from headrace.coordinator.runtime.shard import Status
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.group_bench import GROUP, REBALANCE_MS, SESSION_MS, Bench, Joined


def test_everybody_gets_what_the_leader_assigned() -> None:
    """G1: each member is given its own part, with the protocol it was made by (KIP-559)."""
    bench = Bench()
    one, first = bench.start_member()
    two, second = bench.start_member()
    bench.pass_time(6_000)
    follower = bench.joined(second)
    waiting = bench.sync(follower)
    assert waiting not in bench.answers
    bench.sync(bench.joined(first), {one: b"p0", two: b"p1"})
    assert bench.answers[waiting] == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"p1"
    )
    assert bench.group.is_in(GroupState.STABLE)


def test_an_assignment_counts_when_it_is_committed() -> None:
    """G4: nobody works on an assignment that a failover could forget."""
    bench = Bench()
    _, token = bench.start_member()
    bench.pass_time(3_000)
    bench.holds_log = True
    synced = bench.sync(bench.joined(token), {})
    assert synced not in bench.answers
    assert bench.group.is_in(GroupState.COMPLETING_REBALANCE)
    bench.commit_next()
    assert bench.answers[synced].error_code == ErrorCode.NONE


def test_an_assignment_that_could_not_be_stored_is_made_again() -> None:
    """B28: members are told to come back, and the group rebalances."""
    bench = Bench()
    _, token = bench.start_member()
    bench.pass_time(3_000)
    bench.holds_log = True
    synced = bench.sync(bench.joined(token), {})
    bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.answers[synced].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group.is_in(GroupState.PREPARING_REBALANCE)


def test_who_the_leader_forgot_gets_nothing() -> None:
    """B-P06: a member without a part gets an empty assignment."""
    bench = Bench()
    _, first = bench.start_member()
    _, second = bench.start_member()
    bench.pass_time(6_000)
    waiting = bench.sync(bench.joined(second))
    bench.sync(bench.joined(first), {})
    assert bench.answers[waiting].assignment == b""


def test_a_follower_may_ask_again_in_a_stable_group() -> None:
    """B-P06: a SyncGroup whose answer was lost is answered from what is stored."""
    bench = Bench()
    leader, _ = bench.stable_group(size=2)
    assert bench.answers[bench.sync(leader, {})].assignment == f"a-{leader.member_id}".encode()


def test_a_sync_from_the_past_or_from_nobody_changes_nothing() -> None:
    """G3: other generation, other member, other protocol, no group."""
    bench = Bench()
    (member,) = bench.stable_group()

    def refused(**changes: object) -> ErrorCode:
        return ErrorCode(bench.answers[bench.sync(member, {}, **changes)].error_code)

    before = len(bench.log)
    assert refused(generation_id=0) == ErrorCode.ILLEGAL_GENERATION
    assert refused(generation_id=2) == ErrorCode.ILLEGAL_GENERATION
    assert refused(member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(group_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(protocol_name="sticky") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(protocol_type="consumer", protocol_name="range") == ErrorCode.NONE
    assert len(bench.log) == before


def test_a_sync_during_a_rebalance_is_sent_back() -> None:
    """B-P06: who syncs while others join must join as well."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    bench.start_join(leader.member_id)
    assert bench.answers[bench.sync(follower)].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_waits_for_an_assignment_hears_of_the_next_rebalance() -> None:
    """GL1: a new member during CompletingRebalance lets the group begin again, and nobody hangs."""
    bench = Bench()
    bench.start_member()
    _, token = bench.start_member()
    bench.pass_time(6_000)
    waiting = bench.sync(bench.joined(token))
    bench.start_member()
    assert bench.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_never_fetches_its_assignment_is_out() -> None:
    """GL1: the rebalance timeout bounds SyncGroup too, though heartbeats come."""
    bench = Bench()
    _, first = bench.start_member()
    _, second = bench.start_member()
    bench.pass_time(6_000)
    lazy, busy = bench.joined(first), bench.joined(second)
    bench.sync(busy)
    for _ in range(REBALANCE_MS // 5_000):
        bench.heartbeat(lazy)
        bench.pass_time(5_000)
    assert list(bench.group.members) == [busy.member_id]


def test_a_heartbeat_tells_how_the_group_is() -> None:
    """G3: fine, join again, wrong generation, unknown."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    assert bench.heartbeat(follower) == ErrorCode.NONE
    assert bench.heartbeat(follower, generation_id=7) == ErrorCode.ILLEGAL_GENERATION
    assert bench.heartbeat(follower, member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(follower, group_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    bench.start_join(leader.member_id)
    assert bench.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    """GL1: and the others rebalance; a heartbeat puts that off."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    bench.pass_time(SESSION_MS - 1)
    bench.heartbeat(leader)
    bench.pass_time(SESSION_MS - 1)
    assert list(bench.group.members) == [leader.member_id]
    assert bench.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_waits_for_us_is_not_silent() -> None:
    """GL1: no session ends while its JoinGroup waits for others."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    token = bench.start_join(leader.member_id)
    for _ in range(4):
        bench.pass_time(SESSION_MS - 1_000)
        bench.heartbeat(follower)
    assert leader.member_id in bench.group.members
    bench.start_join(follower.member_id)
    assert bench.joined(token).generation_id == 2


def test_leaving_lets_the_others_share_the_work() -> None:
    """B-P06: a leader may leave, another one leads."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    assert bench.leave(leader) == [ErrorCode.NONE]
    token = bench.start_join(follower.member_id)
    assert bench.joined(token).leads
    assert bench.leave(leader) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_the_last_to_leave_leaves_an_empty_group() -> None:
    """B-P06: Empty is written down, with the next generation."""
    bench = Bench()
    bench.leave(*bench.stable_group(size=2))
    restarted = bench.restarted()
    assert (restarted.group.state, restarted.group.generation_id) == (GroupState.EMPTY, 2)
    assert restarted.machine.describe(GROUP, api_version=5).protocol_type == "consumer"


def test_many_may_leave_in_one_request_each_with_its_own_error() -> None:
    """B24: the same member twice leaves once."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    stranger = Joined("who", 1, "")
    assert bench.leave(follower, follower, stranger) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(bench.group.members) == [leader.member_id]


def test_who_was_only_given_an_id_may_leave() -> None:
    """KIP-394: and is waited for no longer."""
    bench = Bench()
    (member,) = bench.stable_group()
    newcomer = bench.answers[bench.start_join()].member_id
    token = bench.start_join(member.member_id)
    bench.leave(Joined(newcomer, -1, ""))
    assert bench.joined(token).generation_id == 2


def test_leaving_an_unknown_group_is_leaving_as_an_unknown_member() -> None:
    """B-P06: no top-level error, one for each member."""
    answer = Bench().ask(
        LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="a"), MemberIdentity(member_id="b"))),
        version=5,
    )
    assert (answer.error_code, [each.error_code for each in answer.members]) == (0, [ErrorCode.UNKNOWN_MEMBER_ID] * 2)


def test_who_leaves_while_it_waits_is_answered() -> None:
    """M5: no request of a member that is gone is kept."""
    bench = Bench()
    bench.start_member()
    _, token = bench.start_member()
    bench.pass_time(6_000)
    member = bench.joined(token)
    waiting = bench.sync(member)
    bench.leave(member)
    assert bench.answers[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_coordinator_that_resigns_sends_everybody_on() -> None:
    """B28: joins, syncs and commits that wait are told NOT_COORDINATOR."""
    bench = Bench()
    (member,) = bench.stable_group()
    join = bench.start_member()[1]
    bench.holds_log = True
    commit = bench.start_commit(5, member)
    bench.step(Resigned())
    assert bench.answers[join].error_code == ErrorCode.NOT_COORDINATOR
    assert bench.answers[commit].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_very_many_members_are_brought_back_in_turns() -> None:
    """M6, GL1: the load ends when the last has its session."""
    bench = Bench()
    bench.stable_group(size=3)
    stored = bench.machine.shard.committed.groups[GROUP]
    rules = GroupRules()
    log = [rules.written(GroupStored(f"g{number}", stored)) for number in range(RESTORED_A_TURN)]
    machine = GroupCoordinator(bench.config)
    runtime = Runtime(machine, machine.shard)
    runtime.step(RecordsLoaded(records=[LoadedRecord(0, *record) for record in log], producer_id=-1))
    runtime.step(LoadFinished(next_offset=len(log), now_ms=0))
    turns = 1
    while machine.shard.status is Status.LOADING:
        runtime.step(TimePassed(now_ms=5))
        turns += 1
    assert (turns, len(machine.shard.groups), runtime.next_deadline_ms) == (5, RESTORED_A_TURN, SESSION_MS)


def test_members_have_a_whole_session_to_find_a_restarted_coordinator() -> None:
    """G2, GL1: a Stable group is loaded as it was, and its sessions begin anew."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    restarted = bench.restarted()
    restarted.pass_time(SESSION_MS - 1)
    assert restarted.heartbeat(follower) == ErrorCode.NONE
    assert restarted.answers[restarted.sync(leader, {})].assignment == f"a-{leader.member_id}".encode()
    restarted.pass_time(SESSION_MS - 1)
    assert list(restarted.group.members) == [follower.member_id]


def test_a_heartbeat_of_an_empty_group_is_of_nobody() -> None:
    """G3: Empty has no members."""
    bench = Bench()
    bench.leave(*bench.stable_group())
    request = HeartbeatRequest(group_id=GROUP, generation_id=2, member_id="x")
    assert bench.ask(request, version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_hundred_members_settle_and_survive_losing_half() -> None:
    """S86, GL1: within two rebalance timeouts everybody who is alive shares one generation."""
    bench = Bench()
    members = bench.stable_group(size=100)
    assert (len(bench.group.members), bench.group.generation_id) == (100, 1)
    alive = members[::2]
    tokens: dict[str, int] = {}
    for _ in range(2 * REBALANCE_MS // 2_000):
        bench.pass_time(2_000)
        for member in alive:
            if member.member_id not in tokens and bench.heartbeat(member) == ErrorCode.REBALANCE_IN_PROGRESS:
                tokens[member.member_id] = bench.start_join(member.member_id)
        if len(tokens) == len(alive) and all(token in bench.answers for token in tokens.values()):
            break
    again = [bench.joined(token) for token in tokens.values()]
    assert bench.sync_all(again).keys() == {member.member_id for member in alive}
    assert bench.group.is_in(GroupState.STABLE)
    assert {member.generation_id for member in again} == {bench.group.generation_id}


def test_a_group_that_everybody_left_is_empty_though_somebody_was_given_an_id() -> None:
    """B-P06, KIP-394: nobody is waited for; the group may be deleted at once, as in Kafka."""
    bench = Bench()
    (member,) = bench.stable_group()
    given = bench.start_join()
    assert bench.answers[given].error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert bench.leave(member) == [ErrorCode.NONE]
    assert (bench.group.state, bench.group.generation_id) == (GroupState.EMPTY, member.generation_id + 1)
    assert bench.delete_groups(GROUP) == [ErrorCode.NONE]


def test_rebalances_and_lost_members_are_told() -> None:
    """G1: a line for each generation, and one for each member that is out against its will; one that leaves is told of by the next generation."""
    bench = Bench()
    one, first = bench.start_member()
    two, second = bench.start_member()
    bench.pass_time(6_000)
    leader, other = bench.joined(first), bench.joined(second)
    bench.sync(leader, {one: b"p0", two: b"p1"})
    bench.sync(other)
    told = bench.machine.shard.told
    assert [text for _, text in told] == ["group g rebalances: generation 1 with 2 members"]
    told.clear()
    bench.pass_time(SESSION_MS - 1)
    bench.heartbeat(leader)
    bench.pass_time(1)
    assert [text for _, text in told] == [f"group g lost member {two}: it sent no heartbeat for 10000 ms"]
    told.clear()
    bench.pass_time(REBALANCE_MS)
    assert [text for _, text in told] == [
        f"group g lost member {one}: it sent no heartbeat for 10000 ms",
        "group g is empty",
    ]
