"""Joining a group: ids first, votes, limits, timeouts."""

from __future__ import annotations

import pytest

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.group import GroupState
from headrace.coordinator.groups.joining import MOST_PENDING_JOINS, MOST_PROTOCOLS
from headrace.coordinator.groups.member import size_of_member
from headrace.coordinator.groups.stored import MOST_GROUP_BYTES
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupResponseMember
from tests.unit.coordinator.group_bench import GROUP, REBALANCE_MS, SESSION_MS, Bench, join_request


def test_a_new_dynamic_member_is_given_an_id_first() -> None:
    """KIP-394: from version 4 on nobody is a member before it comes back with its id."""
    bench = Bench()
    response = bench.ask(join_request())
    assert (response.error_code, response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "client-id1")
    assert bench.group.members == {}


def test_an_old_client_joins_without_an_id() -> None:
    """KIP-394: version 3 and below are members at once."""
    bench = Bench()
    token = bench.start_join(version=3)
    assert token not in bench.answers
    bench.pass_time(3_000)
    assert bench.joined(token).leads


def test_a_long_client_id_makes_a_member_id_that_can_be_written() -> None:
    """B7: 32,767 bytes of client id, in any alphabet."""
    for client_id in ("x" * 32_767, "\U0001f600" * 8_191):
        bench = Bench()
        response = bench.answers[bench.send(join_request(), client_id=client_id)]
        assert 31_000 < len(response.member_id.encode()) < 32_767


def test_version_0_has_one_timeout_for_both() -> None:
    """B-P06: JoinGroup 0 has no rebalance timeout; the session timeout stands for it."""
    bench = Bench()
    bench.start_join(version=0, rebalance_timeout_ms=-1)
    assert bench.group.rebalance_timeout_ms == SESSION_MS


def test_a_first_generation_waits_for_more_members() -> None:
    """KIP-134: an empty group waits group.initial.rebalance.delay.ms, again for each newcomer."""
    bench = Bench()
    first = bench.start_member()[1]
    bench.pass_time(2_999)
    second = bench.start_member()[1]
    bench.pass_time(2_999)
    assert bench.answers.keys().isdisjoint({first, second})
    bench.pass_time(2)
    members = [bench.joined(token) for token in (first, second)]
    assert [(m.generation_id, m.leads) for m in members] == [(1, True), (1, False)]


def test_the_first_wait_ends_at_the_rebalance_timeout() -> None:
    """KIP-134: newcomers prolong the wait up to the longest rebalance timeout."""
    bench = Bench()
    token = bench.start_member(rebalance_timeout_ms=7_000)[1]
    for _ in range(3):
        bench.pass_time(2_000)
        bench.start_member(rebalance_timeout_ms=7_000)
    assert token not in bench.answers
    bench.pass_time(1_500)
    assert token in bench.answers


def test_the_leader_learns_who_the_members_are() -> None:
    """B-P06: only the leader is given the members and their metadata for the chosen protocol."""
    bench = Bench()
    one, first = bench.start_member(protocols=(("range", b"1"), ("sticky", b"1s")))
    two, second = bench.start_member(protocols=(("range", b"2"),))
    bench.pass_time(6_000)
    assert bench.answers[first].members == (
        JoinGroupResponseMember(member_id=one, metadata=b"1"),
        JoinGroupResponseMember(member_id=two, metadata=b"2"),
    )
    assert bench.answers[second].members == ()
    assert (bench.answers[second].protocol_name, bench.answers[second].protocol_type) == ("range", "consumer")


def test_the_protocol_with_most_first_choices_wins() -> None:
    """B-P06: each member votes for its first choice among the protocols that all support."""
    bench = Bench()
    preferences = (("c", "b", "a"), ("b", "a"), ("a", "b", "z"), ("b", "a"))
    tokens = [bench.start_member(protocols=tuple((name, b"") for name in names))[1] for names in preferences]
    bench.pass_time(12_000)
    assert {bench.answers[token].protocol_name for token in tokens} == {"b"}


def test_a_tie_of_votes_is_broken_as_java_does() -> None:
    """B-P06: among equals the first in the order of a java.util.HashMap wins: "range" before "roundrobin"."""
    bench = Bench()
    tokens = [
        bench.start_member(protocols=((first, b""), (second, b"")))[1]
        for first, second in (("range", "roundrobin"), ("roundrobin", "range"))
    ]
    bench.pass_time(6_000)
    assert {bench.answers[token].protocol_name for token in tokens} == {"range"}


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, -1, 0])
def test_session_timeouts_have_bounds(session_timeout_ms: int) -> None:
    """B23: group.min.session.timeout.ms and group.max.session.timeout.ms are both inclusive."""
    response = Bench().ask(join_request(session_timeout_ms=session_timeout_ms))
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_an_unknown_member_of_an_unknown_group_is_refused() -> None:
    """G3: a member id that nobody gave is nobody's."""
    bench = Bench()
    assert bench.ask(join_request("who")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.machine.shard.groups == {}
    bench.stable_group()
    assert bench.ask(join_request("who")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "changes",
    [{"protocol_type": "connect"}, {"protocol_type": ""}, {"protocols": (("other", b""),)}, {"protocols": ()}],
)
def test_a_member_must_share_a_protocol_with_all(changes: dict[str, object]) -> None:
    """B-P06: another protocol type, or no protocol that all support, is INCONSISTENT_GROUP_PROTOCOL."""
    bench = Bench()
    bench.stable_group()
    assert bench.ask(join_request(**changes)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]


def test_a_full_group_takes_nobody() -> None:
    """M5: group.max.size bounds a group; who is in may join again."""
    bench = Bench(GroupConfig(max_size=2))
    members = bench.stable_group(size=2)
    assert bench.ask(join_request(), version=3).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.start_join(members[0].member_id)
    assert bench.group.is_in(GroupState.PREPARING_REBALANCE)


def test_the_first_to_rejoin_stay_in_a_group_that_is_too_large() -> None:
    """M5: a loaded group above group.max.size rebalances, and only as many as fit are let in."""
    bench = Bench()
    members = bench.stable_group(size=3)
    smaller = Bench(GroupConfig(max_size=2), log=bench.log)
    assert smaller.group.is_in(GroupState.PREPARING_REBALANCE)
    tokens = [smaller.start_join(member.member_id) for member in members]
    assert smaller.answers[tokens[2]].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(smaller.group.members) == [member.member_id for member in members[:2]]
    smaller.pass_time(REBALANCE_MS)
    assert smaller.joined(tokens[0]).generation_id == 2


def test_who_never_comes_back_with_its_id_is_forgotten() -> None:
    """M5, KIP-394: an id that was given out lives for one session timeout."""
    bench = Bench()
    bench.ask(join_request())
    assert len(bench.group.pending_joins) == 1
    bench.pass_time(SESSION_MS)
    assert not bench.group.pending_joins


def test_ids_that_nobody_uses_do_not_pile_up() -> None:
    """M5: beyond a number the oldest is forgotten, and may begin again."""
    bench = Bench()
    ids = [bench.answers[bench.start_join()].member_id for _ in range(MOST_PENDING_JOINS + 1)]
    assert len(bench.group.pending_joins) == MOST_PENDING_JOINS
    assert bench.ask(join_request(ids[0])).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    token = bench.start_join(ids[-1])
    bench.pass_time(bench.config.initial_rebalance_delay_ms)
    assert bench.joined(token).leads


def test_a_rebalance_waits_for_who_was_given_an_id() -> None:
    """KIP-394: an id given out counts as a member on its way."""
    bench = Bench()
    (member,) = bench.stable_group()
    newcomer = bench.answers[bench.start_join()].member_id
    token = bench.start_join(member.member_id)
    assert token not in bench.answers
    bench.start_join(newcomer)
    assert bench.joined(token).generation_id == 2


def test_a_new_member_that_waits_is_not_kept_for_ever() -> None:
    """M5: a member that never got into a generation is out after five minutes, though it waits for us."""
    bench = Bench()
    (keeper,) = bench.stable_group()
    token = bench.start_member(session_timeout_ms=1_800_000, rebalance_timeout_ms=2_000_000)[1]
    for _ in range(60):
        assert token not in bench.answers
        bench.heartbeat(keeper)
        bench.pass_time(5_000)
    assert bench.answers[token].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_joins_again_unchanged_disturbs_nobody() -> None:
    """B-P06: in a Stable group a follower that repeats its JoinGroup gets the generation there is."""
    bench = Bench()
    _, follower = bench.stable_group(size=2)
    answer = bench.ask(join_request(follower.member_id))
    assert (answer.error_code, answer.generation_id, answer.members) == (ErrorCode.NONE, 1, ())
    assert bench.group.is_in(GroupState.STABLE)


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    """B-P06: the leader joins again when partitions changed: the work is shared anew."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    token = bench.start_join(leader.member_id)
    assert bench.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.start_join(follower.member_id)
    assert bench.joined(token).generation_id == 2


def test_a_member_with_new_metadata_starts_a_rebalance() -> None:
    """B-P06: new topics or, with the cooperative protocol, given-up partitions come as new metadata."""
    bench = Bench()
    _, follower = bench.stable_group(size=2)
    bench.start_join(follower.member_id, protocols=(("range", b"other"),))
    assert bench.group.is_in(GroupState.PREPARING_REBALANCE)


def test_a_repeated_join_before_the_assignment_gets_the_same_answer() -> None:
    """B-P06: in CompletingRebalance a member whose answer was lost asks again."""
    bench = Bench()
    member_id, token = bench.start_member()
    bench.pass_time(3_000)
    again = bench.ask(join_request(member_id))
    assert again == bench.answers[token]


def test_of_two_joins_of_one_member_the_newest_counts() -> None:
    """M5: an older waiting JoinGroup is answered when a newer one comes, and kept no longer."""
    bench = Bench()
    member_id, first = bench.start_member()
    second = bench.start_join(member_id)
    assert bench.answers[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.pass_time(3_000)
    assert bench.joined(second).generation_id == 1


def test_who_does_not_join_in_time_is_out() -> None:
    """GL1: at the rebalance timeout the generation begins with those who are there; a lost leader is replaced."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    token = bench.start_join(follower.member_id, protocols=(("range", b"new"),))
    for _ in range(REBALANCE_MS // 5_000):
        assert token not in bench.answers
        bench.heartbeat(leader)
        bench.pass_time(5_000)
    again = bench.joined(token)
    assert (again.generation_id, again.leads, list(bench.group.members)) == (2, True, [follower.member_id])


def test_generations_only_rise() -> None:
    """G2: also when everybody leaves and comes back, and over a restart."""
    bench = Bench()
    seen = []
    for _ in range(3):
        members = bench.stable_group(size=2)
        seen.append(members[0].generation_id)
        bench.leave(*members)
        assert bench.group.is_in(GroupState.EMPTY)
        bench = bench.restarted()
    assert seen == sorted(set(seen))


def test_a_new_group_is_written_down_before_it_has_members() -> None:
    """B-P06: as Kafka does, the first JoinGroup stores that the group exists; a restart knows it as Empty."""
    bench = Bench()
    bench.ask(join_request())
    assert len(bench.log) == 1
    restarted = bench.restarted()
    assert restarted.group.is_in(GroupState.EMPTY)
    assert restarted.machine.describe(GROUP, api_version=6).group_state == "Empty"


def test_a_member_has_a_handful_of_protocols() -> None:
    """PR8, M6: a vote looks through those of each member."""
    bench = Bench()
    names = tuple((f"p{number}", b"") for number in range(MOST_PROTOCOLS + 1))
    assert bench.ask(join_request(protocols=names)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.ask(join_request(protocols=names[1:])).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_what_members_say_of_themselves_is_counted_until_they_are_gone() -> None:
    """PR8, inv:M1: new, changed, replaced and gone members."""
    bench = Bench()
    shard = bench.machine.shard
    leader, other = bench.stable_group(instances=("one", "two"))
    each = size_of_member((("range", b"sub"),))
    assert shard.kept_bytes == 2 * each
    assert bench.restarted().machine.shard.kept_bytes == 2 * each
    bench.ask(join_request(instance="two"))
    assert shard.kept_bytes == 2 * each
    bench.start_join(leader.member_id, instance="one", protocols=(("range", b"sub" + bytes(100)),))
    assert shard.kept_bytes == 2 * each + 100
    bench.pass_time(10 * REBALANCE_MS)
    assert (shard.kept_bytes, other.instance) == (0, "two")


def test_a_group_whose_record_no_topic_takes_is_not_written() -> None:
    """PR8, M6: a hundred megabytes were encoded in one turn, and stored where every later start must read them."""
    bench = Bench()
    much = (("range", bytes(MOST_GROUP_BYTES // 2)),)
    _, first = bench.start_member(protocols=much)
    _, second = bench.start_member(protocols=much)
    bench.pass_time(10_000)
    members = [bench.joined(first), bench.joined(second)]
    leader = next(member for member in members if member.leads)
    token = bench.sync(leader, {leader.member_id: b"some"})
    assert bench.answers[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.group.is_in(GroupState.PREPARING_REBALANCE)
