"""Groups under members that come, go, stall and die, and coordinators that fail over: the machine against plain bookkeeping.

The clients below do what real ones do. The books are kept apart from the coordinator: what was handed out, what was acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.coordinator.groups import rebalance
from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.group import GroupState
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupResponse
from headrace.wire.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.group_bench import GROUP, Bench, Joined

PARTITIONS = 6
CONFIG = GroupConfig(initial_rebalance_delay_ms=500, max_size=4)
FRESH_START = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
GIVES_UP = {ErrorCode.GROUP_MAX_SIZE_REACHED}


@dataclass
class Client:
    """One consumer: what it knows, and the request it waits for."""

    name: str
    instance: str | None
    member_id: str = ""
    joined: Joined | None = None
    join_token: int | None = None
    sync_token: int | None = None
    members: tuple[str, ...] = ()
    owns: frozenset[int] | None = None

    def forget(self) -> None:
        """The process died, or must begin anew."""
        self.member_id = ""
        self.lose()

    def lose(self) -> None:
        """What it had is another's now; it must join again."""
        self.joined = self.join_token = self.sync_token = self.owns = None


@dataclass
class Books:
    """What has been promised: assignments by generation, and positions."""

    handed_out: dict[int, dict[str, frozenset[int]]] = field(default_factory=dict)
    assigned_by: dict[int, str] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    possible: dict[int, set[int]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)


class GroupsUnderFaults(RuleBasedStateMachine):
    """Rules are faults and requests; invariants are checked after each."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(CONFIG)
        self.books = Books()
        self.everybody: list[Client] = []
        self.commits: dict[int, tuple[int, int]] = {}
        self.next_offset = 0

    @initialize(target=clients)
    def first(self) -> MultipleResults[Client]:
        return multiple(self._client(None), self._client("i"), self._client(None))

    @precondition(lambda self: len(self.everybody) < CONFIG.max_size + 2)
    @rule(target=clients, is_static=st.booleans())
    def arrive(self, is_static: bool) -> Client:
        return self._client(f"i{len(self.everybody)}" if is_static else None)

    def _client(self, instance: str | None) -> Client:
        """A new client, known to the books."""
        self.everybody.append(Client(f"c{len(self.everybody)}", instance))
        return self.everybody[-1]

    # ---- what clients do

    @rule(client=clients)
    def one_goes_on(self, client: Client) -> None:
        for _ in range(4):
            self._go_on(client)

    @rule(rounds=st.integers(1, 8))
    def all_go_on(self, rounds: int) -> None:
        self._all_go_on(rounds)

    @rule(client=clients, rounds=st.integers(1, 8))
    def all_but_one_go_on(self, client: Client, rounds: int) -> None:
        self._all_go_on(rounds, but=client)

    def _all_go_on(self, rounds: int, but: Client | None = None) -> None:
        """Time in which clients do what they do, one of them perhaps stalled."""
        for _ in range(rounds):
            for client in self.everybody:
                if client is not but:
                    self._go_on(client)
            self.bench.pass_time(300)

    def _go_on(self, client: Client) -> None:
        """The next thing this client would do."""
        if client.join_token is not None:
            self._take_join(client)
        elif client.sync_token is not None:
            self._take_sync(client)
        elif client.joined is None:
            client.join_token = self.bench.start_join(client.member_id, instance=client.instance)
        elif client.owns is None:
            self._send_sync(client, client.joined)
        else:
            self._take_error(client, self.bench.heartbeat(client.joined))

    def _take_join(self, client: Client) -> None:
        assert client.join_token is not None
        answer: JoinGroupResponse | None = self.bench.answers.get(client.join_token)
        if answer is None:
            return
        client.join_token = None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error_code:
            self._take_error(client, ErrorCode(answer.error_code))
        else:
            client.member_id = answer.member_id
            client.joined = Joined(answer.member_id, answer.generation_id, answer.leader, client.instance)
            client.members = () if answer.skip_assignment else tuple(each.member_id for each in answer.members)

    def _send_sync(self, client: Client, joined: Joined) -> None:
        parts: dict[str, bytes] = {name: b"" for name in client.members}
        for partition in range(PARTITIONS if parts else 0):
            parts[client.members[partition % len(parts)]] += bytes([partition])
        client.sync_token = self.bench.sync(joined, parts)

    def _take_sync(self, client: Client) -> None:
        assert client.sync_token is not None
        assert client.joined is not None
        answer: SyncGroupResponse | None = self.bench.answers.get(client.sync_token)
        if answer is None:
            return
        client.sync_token = None
        if answer.error_code:
            self._take_error(client, ErrorCode(answer.error_code))
            return
        client.owns = frozenset(answer.assignment)
        place = client.instance or client.member_id
        before = self.books.handed_out.setdefault(client.joined.generation_id, {})
        assert before.setdefault(place, client.owns) == client.owns, "G2: one generation, one assignment"

    def _take_error(self, client: Client, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            return
        if error in FRESH_START or error in GIVES_UP:
            client.forget()
        else:
            client.lose()

    @rule(client=clients)
    def die(self, client: Client) -> None:
        client.forget()

    @rule(client=clients)
    def leave(self, client: Client) -> None:
        if client.joined is not None and not self.bench.holds_log:
            self.bench.leave(client.joined)
            client.forget()

    @rule(client=clients, partition=st.integers(0, PARTITIONS - 1), is_stale=st.booleans())
    def commit(self, client: Client, partition: int, is_stale: bool) -> None:
        self._commit(client, partition, is_stale=is_stale)

    @rule(client=clients, partition=st.integers(0, PARTITIONS - 1))
    def commit_on_a_stalled_log(self, client: Client, partition: int) -> None:
        self.bench.holds_log = True
        self._commit(client, partition, is_stale=False)

    def _commit(self, client: Client, partition: int, *, is_stale: bool) -> None:
        """Store the next offset; remember that it may be read from now on."""
        if client.joined is None:
            return
        self.next_offset += 1
        generation = client.joined.generation_id - is_stale
        token = self.bench.start_commit(
            self.next_offset, client.joined, partition=partition, generation_id_or_member_epoch=generation
        )
        self.commits[token] = (partition, self.next_offset)
        self.books.possible.setdefault(partition, set()).add(self.next_offset)
        if is_stale and token in self.bench.answers:
            code = self.bench.answers[token].topics[0].partitions[0].error_code
            group = self.bench.machine.shard.groups.get(GROUP)  # none, when the coordinator failed over with nothing
            is_old = group is not None and bool(group.members) and generation < group.generation_id
            assert code != ErrorCode.NONE or not is_old, "G3: a stale commit changes nothing"

    @rule(client=clients)
    def haunt(self, client: Client) -> None:
        """G3: requests of an older generation are refused, and the group is as before."""
        if client.joined is None or GROUP not in self.bench.machine.shard.groups:
            return
        group = self.bench.group
        before = (group.state, group.generation_id, {name: m.assignment for name, m in group.members.items()})
        stale = client.joined.generation_id - 1
        if stale >= group.generation_id:  # the coordinator failed over before the newer generation was stored
            return
        token = self.bench.sync(client.joined, {client.joined.member_id: b"mine"}, generation_id=stale)
        assert self.bench.answers[token].error_code
        assert self.bench.heartbeat(client.joined, generation_id=stale) is not ErrorCode.NONE
        assert before == (group.state, group.generation_id, {name: m.assignment for name, m in group.members.items()})

    # ---- faults

    @rule(by_ms=st.sampled_from([1, 400, 3_000, 11_000, 61_000]))
    def wait(self, by_ms: int) -> None:
        self.bench.pass_time(by_ms)

    @rule()
    def log_stalls(self) -> None:
        self.bench.holds_log = True

    @rule()
    def log_goes_on(self) -> None:
        self.bench.holds_log = False
        while self.bench.appends:
            self.bench.commit_next()

    @rule()
    def log_refuses(self) -> None:
        while self.bench.appends:
            self.bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)

    @rule(survive=st.integers(0, 3))
    def fail_over(self, survive: int) -> None:
        """Another coordinator loads what was committed, and perhaps some of what was not."""
        self._settle_commits()
        for append in self.bench.appends[:survive]:
            self.bench.log.extend(append.records)
        self.bench = self.bench.restarted()
        self.commits.clear()
        for client in self.everybody:
            client.join_token = client.sync_token = None

    # ---- what must hold

    def _settle_commits(self) -> None:
        for token in [token for token in self.commits if token in self.bench.answers]:
            partition, offset = self.commits.pop(token)
            code = self.bench.answers[token].topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                self.books.acknowledged[partition] = max(offset, self.books.acknowledged.get(partition, -1))
            elif code not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                self.books.possible[partition].discard(offset)

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        """G1: in one generation no partition has two owners."""
        for parts in self.books.handed_out.values():
            owned = [partition for part in parts.values() for partition in part]
            assert len(owned) == len(set(owned))

    @invariant()
    def positions_do_not_go_back(self) -> None:
        """G4, H14: what is read is the last acknowledged position, or one that may have been stored after it."""
        self._settle_commits()
        for partition, acknowledged in self.books.acknowledged.items():
            read = self.bench.fetch(partition=partition)
            assert read == acknowledged or (read > acknowledged and read in self.books.possible[partition])
        for partition in self.books.possible:
            read = self.bench.fetch(partition=partition)
            assert read >= self.books.read.get(partition, -1), "what was shown once is not taken back"
            self.books.read[partition] = read

    @invariant()
    def the_group_is_consistent(self) -> None:
        """M5, G1: the books of the group itself agree with each other."""
        group = self.bench.machine.shard.groups.get(GROUP)
        if group is None:
            return
        assert group.awaiting_join_count <= CONFIG.max_size
        assert group.leader_id is None or group.leader_id in group.members
        assert set(group.static_members.values()) <= set(group.members)
        assert group.is_in(GroupState.EMPTY) <= (not group.members)
        support: dict[str, int] = {}
        for member in group.members.values():
            for name in member.protocols:
                support[name] = support.get(name, 0) + 1
        assert group.support == support

    def teardown(self) -> None:
        """GL1: left alone, whoever is alive ends in one Stable generation that covers everything."""
        self.log_goes_on()
        alive = self.everybody[: CONFIG.max_size]
        for client in self.everybody[CONFIG.max_size :]:
            client.forget()
        for _ in range(400):
            if self._is_settled(alive):
                return
            for client in alive:
                self._go_on(client)
            self.bench.pass_time(500)
        group = self.bench.machine.shard.groups.get(GROUP)
        state = group and (group.state, group.generation_id, list(group.members), group.pending_joins)
        raise AssertionError(f"GL1: not settled after 200 seconds: {state}, {alive}")

    def _is_settled(self, alive: list[Client]) -> bool:
        group = self.bench.machine.shard.groups.get(GROUP)
        if group is None or not group.is_in(GroupState.STABLE) or len(group.members) != len(alive):
            return False
        generations = {client.joined.generation_id for client in alive if client.joined}
        owned = sorted(partition for client in alive for partition in client.owns or ())
        return generations == {group.generation_id} and owned == list(range(PARTITIONS))


GroupsUnderFaults.TestCase.settings = settings(stateful_step_count=40, max_examples=40, deadline=None)
TestGroupsUnderFaults = GroupsUnderFaults.TestCase


def test_members_that_are_told_one_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """GL1, M6: the same where what all wait for is told in turns, among which anything may happen."""
    monkeypatch.setattr(rebalance, "TOLD_A_TURN", 1)
    run_state_machine_as_test(GroupsUnderFaults, settings=GroupsUnderFaults.TestCase.settings)
