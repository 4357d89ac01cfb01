"""Do groups of very many members, and very many groups, go on in short turns?"""

from __future__ import annotations

import pytest

from headrace.coordinator.groups import expiry, joining, rebalance
from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.expiry import LOOKED_AT_A_TURN, POSITIONS_A_TURN
from headrace.coordinator.groups.group import GroupState
from headrace.coordinator.groups.image import CommittedOffset, GroupStored, OffsetKey, OffsetStored, StoredRecord
from headrace.coordinator.groups.member import Member
from headrace.coordinator.groups.queries import LISTED_AT_ONCE
from headrace.coordinator.groups.stored import GroupRules
from headrace.coordinator.runtime.events import TimePassed
from headrace.coordinator.runtime.machine import RUNG_A_TURN
from headrace.core.error_code import ErrorCode
from headrace.wire.group_records.group_metadata_value import GroupMetadataValue
from headrace.wire.messages.join_group import JoinGroupResponse
from headrace.wire.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.group_bench import GROUP, REBALANCE_MS, SESSION_MS, START_MS, Bench, Joined, join_request

DELAY_MS = 3_000


@pytest.fixture
def three_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three members are told in a turn."""
    monkeypatch.setattr(rebalance, "TOLD_A_TURN", 3)


def gathered(bench: Bench, size: int) -> list[int]:
    """The joins of so many members, on which the first generation begins with the next step."""
    tokens = [bench.start_member()[1] for _ in range(size)]
    while bench.group.is_in(GroupState.PREPARING_REBALANCE):
        due = bench.runtime.next_deadline_ms
        assert due is not None, "the generation begins"
        bench.now_ms = due
        bench.step(TimePassed(now_ms=due))
    return tokens


def answered(bench: Bench, tokens: list[int]) -> list[int]:
    """Places of the tokens that have their answers."""
    return [place for place, token in enumerate(tokens) if token in bench.answers]


@pytest.mark.usefixtures("three_a_turn")
def test_a_generation_is_told_to_some_members_a_turn_and_to_the_leader_last() -> None:
    """M6: ten thousand members were told in one turn of more than a second. Nothing is assigned before all know their generation."""
    bench = Bench()
    tokens = gathered(bench, 8)
    told = [answered(bench, tokens)]
    while len(told[-1]) < 8:
        bench.pass_time(1)
        told.append(answered(bench, tokens))
    assert told == [[1, 2, 3], [1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7]]
    members = [bench.joined(token) for token in tokens]
    assert ({each.generation_id for each in members}, members[0].leads) == ({1}, True)


@pytest.mark.usefixtures("three_a_turn")
def test_assignments_are_handed_out_to_some_members_a_turn() -> None:
    """M6: and each gets its own."""
    bench = Bench()
    joins = gathered(bench, 8)
    bench.pass_time(5)
    members = [bench.joined(token) for token in joins]
    tokens = [bench.sync(member) for member in members[1:]]
    tokens.append(bench.sync(members[0], {each.member_id: each.member_id.encode() for each in members}))
    told = [len(answered(bench, tokens))]
    while told[-1] < 8:
        bench.pass_time(1)
        told.append(len(answered(bench, tokens)))
    assert told == [3, 6, 8]
    assert [bench.answers[token].assignment.decode() for token in tokens] == [
        each.member_id for each in (*members[1:], members[0])
    ]


@pytest.mark.usefixtures("three_a_turn")
def test_who_was_not_told_its_generation_cannot_sync() -> None:
    """M6, G3: whoever guesses it hears of the rebalance, and its join is answered as that of the others."""
    bench = Bench()
    tokens = gathered(bench, 5)
    member_ids = list(bench.group.members)
    guess = Joined(member_ids[0], 1, member_ids[0])
    early = bench.sync(guess, {member_ids[0]: b"all"})
    assert bench.answers[early] == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    bench.pass_time(5)
    assert len(answered(bench, tokens)) == 5


@pytest.mark.usefixtures("three_a_turn")
def test_who_was_not_told_of_a_generation_has_joined_the_next() -> None:
    """M6: somebody leaves while the members are told; those who wait still are in the rebalance that follows."""
    bench = Bench()
    tokens = gathered(bench, 6)
    told = [bench.joined(tokens[place]) for place in answered(bench, tokens)]
    assert bench.leave(told[0]) == [ErrorCode.NONE]
    assert (bench.group.state, answered(bench, tokens)) == (GroupState.PREPARING_REBALANCE, [1, 2, 3])
    again = [bench.start_join(member.member_id) for member in told[1:]]
    bench.pass_time(5)
    waiting = [tokens[0], *tokens[4:], *again]
    assert [bench.joined(token).generation_id for token in waiting] == [2] * 5


@pytest.mark.usefixtures("three_a_turn")
def test_who_waits_for_an_assignment_is_told_of_a_rebalance_in_turns() -> None:
    """M6: all hear of it, nobody twice, and a timeout does not put out who has not heard yet."""
    bench = Bench()
    joins = gathered(bench, 9)
    bench.pass_time(5)
    members = [bench.joined(token) for token in joins]
    tokens = [bench.sync(member) for member in members[1:8]]
    bench.leave(members[8])
    assert len(answered(bench, tokens)) == 3
    bench.pass_time(5)
    assert [bench.answers[token].error_code for token in tokens] == [ErrorCode.REBALANCE_IN_PROGRESS] * 7
    again = [bench.start_join(member.member_id) for member in members[:8]]
    bench.pass_time(5)
    assert [bench.joined(token).generation_id for token in again] == [2] * 8


class Name(str):
    """The name of a protocol, which counts how often one is compared with another."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        Name.compared += 1
        return str(self) < str(other)


def test_a_vote_looks_at_a_members_own_protocols_only() -> None:
    """M6: among a hundred that thousands of members share, each looked for the least one too, which it did not need."""
    candidates = {Name(f"p{number}") for number in range(100)}
    protocols = [(name, b"") for name in ("own", *sorted(candidates))]
    member = Member("m", client=("c", "h"), timeouts_ms=(1, 1), protocol_type="consumer", protocols=protocols)
    Name.compared = 0
    assert (member.vote({*candidates}), Name.compared) == ("p0", 0)


def test_a_group_has_a_number_of_members_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: its record is written in one turn. Who is in the group may come again."""
    monkeypatch.setattr(joining, "MOST_MEMBERS", 2)
    bench = Bench(GroupConfig(max_size=1_000))
    first, _ = bench.stable_group(instances=("a", "b"))
    refused: JoinGroupResponse = bench.ask(join_request(instance="c"))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.ask(join_request(instance="a")).error_code == ErrorCode.NONE
    assert set(bench.group.static_members) == {"a", "b"}
    assert first.member_id not in bench.group.members


def test_a_log_may_have_groups_with_more_members_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: Kafka, which bounds nothing unless told, wrote it. Such a group rebalances at once, and those who join first are in its next generation."""
    bench = Bench()
    members = bench.stable_group(size=5)
    monkeypatch.setattr(joining, "MOST_MEMBERS", 3)
    later = bench.restarted()
    assert later.group.is_in(GroupState.PREPARING_REBALANCE)
    tokens = [later.start_join(each.member_id) for each in members]
    refused: list[JoinGroupResponse] = [later.answers[token] for token in tokens[3:]]
    assert [each.error_code for each in refused] == [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    later.pass_time(REBALANCE_MS)
    assert [later.joined(token).generation_id for token in tokens[:3]] == [2] * 3
    assert list(later.group.members) == [each.member_id for each in members[:3]]


def test_sessions_that_end_at_the_same_moment_end_in_turns() -> None:
    """M6: those of all members, after a pause of their network."""
    bench = Bench()
    bench.stable_group(size=3 * RUNG_A_TURN)
    bench.now_ms += SESSION_MS
    left = []
    while bench.group.members:
        bench.step(TimePassed(now_ms=bench.now_ms))
        left.append(len(bench.group.members))
    assert left == [2 * RUNG_A_TURN, RUNG_A_TURN, 0]


def test_a_group_of_very_many_positions_is_looked_at_in_turns() -> None:
    """M6, PR6: its expired positions are deleted a few at a time, and the group with the last of them."""
    old = CommittedOffset(1, -1, "", 0)
    rules = GroupRules()
    count = 2 * POSITIONS_A_TURN + 1
    log = [rules.written(OffsetStored(OffsetKey("old", "t", partition), old)) for partition in range(count)]
    new = CommittedOffset(1, -1, "", START_MS)
    kept = 2 * LOOKED_AT_A_TURN
    log += [rules.written(OffsetStored(OffsetKey("new", "t", partition), new)) for partition in range(kept)]
    bench = Bench(log=log)
    bench.now_ms += bench.config.offsets_retention_check_interval_ms
    written = []
    while (due := bench.runtime.next_deadline_ms) is not None and due <= bench.now_ms:
        before = len(bench.log)
        bench.step(TimePassed(now_ms=bench.now_ms))
        written.append(len(bench.log) - before)
        bench.now_ms += 1
    assert (sum(written), max(written) <= POSITIONS_A_TURN, len(written) >= 5) == (count + 1, True, True)
    assert (list(bench.machine.shard.groups), bench.machine.shard.state.position_count) == (["new"], kept)


DAY_MS = 86_400_000
PARTITIONS = range(12)


@pytest.fixture
def two_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two positions are deleted, or four are looked at, in a turn."""
    monkeypatch.setattr(expiry, "POSITIONS_A_TURN", 2)
    monkeypatch.setattr(expiry, "LOOKED_AT_A_TURN", 4)


def left_by_a_consumer(*, empty_since_ms: int) -> Bench:
    """A group whose positions were stored ten days ago, in the middle of the look at its age."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol=None,
        leader=None,
        current_state_timestamp=empty_since_ms,
        members=(),
    )
    records: list[StoredRecord] = [GroupStored(GROUP, value)]
    position = CommittedOffset(7, -1, "", START_MS - 10 * DAY_MS)
    records += [OffsetStored(OffsetKey(GROUP, "t", partition), position) for partition in PARTITIONS]
    bench = Bench(log=[GroupRules().written(record) for record in records])
    bench.now_ms += bench.config.offsets_retention_check_interval_ms
    bench.step(TimePassed(now_ms=bench.now_ms))
    assert bench.machine.shard.sweep is not None
    return bench


@pytest.mark.usefixtures("two_a_turn")
def test_who_comes_back_in_the_middle_of_the_look_keeps_its_positions() -> None:
    """PR6: the group was empty for an hour only. From a join on time does not run for it at all, however old its positions are."""
    bench = left_by_a_consumer(empty_since_ms=START_MS - 3_600_000)
    _, token = bench.start_member()
    bench.pass_time(100)
    assert bench.machine.shard.sweep is None
    assert [bench.fetch(partition=partition) for partition in PARTITIONS] == [7] * 12
    bench.pass_time(bench.config.initial_rebalance_delay_ms)
    assert bench.joined(token).leads


@pytest.mark.usefixtures("two_a_turn")
def test_a_group_that_is_made_anew_in_the_middle_of_the_look_keeps_its_positions() -> None:
    """PR6: what the former group of that name was does not count for the positions of the new one."""
    bench = left_by_a_consumer(empty_since_ms=START_MS - 10 * DAY_MS)
    assert bench.delete_groups(GROUP) == [ErrorCode.NONE]
    for partition in PARTITIONS:
        assert bench.commit(9, partition=partition) == ErrorCode.NONE
    bench.pass_time(100)
    assert bench.machine.shard.sweep is None
    assert [bench.fetch(partition=partition) for partition in PARTITIONS] == [9] * 12


def test_very_many_groups_are_listed_some_at_a_time() -> None:
    """M6: there are rests between them, also where none of them is wanted."""
    bench = Bench()
    for number in range(2 * LISTED_AT_ONCE + 1):
        bench.commit(1, group_id=f"g{number}")
    lists = list(bench.machine.list_groups(states=frozenset(), types=frozenset()))
    assert [len(each) for each in lists] == [LISTED_AT_ONCE, LISTED_AT_ONCE, 1]
    assert [*bench.machine.list_groups(states=frozenset({"stable"}), types=frozenset())] == [[], [], []]
    assert GROUP not in {group.group_id for each in lists for group in each}
