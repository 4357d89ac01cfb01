"""Does each kind of fault really do something to a simulated cluster, to those it names, and no longer than it says?"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.core.peers import SendFailure
from headrace.raft.roles import Leader
from headrace.sim.checkers import all_checkers
from headrace.sim.cluster import SimCluster
from headrace.sim.faults import Fault, FaultKind
from headrace.sim.limits import Limits
from headrace.sim.markers import Markers
from headrace.sim.node_events import LinkClosed, Unheard
from headrace.sim.node_observer import METADATA_DIRECTORY
from headrace.sim.observation import ClusterView, Crash, LeadershipTaken, Received, Step, StepKind
from headrace.sim.plan import Plan

SMALL = Limits(
    metadata_log_segment_bytes=400,
    metadata_log_max_record_bytes_between_snapshots=400,
    metadata_max_idle_interval_ms=50,
)


class Seen:
    """A checker that judges nothing and remembers what happened."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.deaths: list[tuple[int, bool]] = []
        """Node and whether it lost power."""
        self.reasons: list[str] = []
        self.stops: list[int] = []
        self.unheard: Counter[SendFailure] = Counter()
        self.closed = 0
        self.answers = 0
        self.asked: Counter[int] = Counter()
        """Identity of a request -> how often it arrived."""
        self._kept: list[object] = []
        self.leaders: list[int] = []

    def begin(self, cluster: ClusterView, markers: Markers) -> None:
        """Nothing to prepare."""

    def on_step(self, step: Step) -> None:
        """Remember."""
        event = step.event
        if isinstance(event, Crash):
            self.deaths.append((step.node.node_id, event.is_lossy))
            self.reasons.append(event.reason)
        elif isinstance(event, Unheard):
            self.unheard[event.failure] += 1
        elif isinstance(event, LinkClosed):
            self.closed += 1
        elif isinstance(event, Received):
            self.answers += not event.is_request
            if event.is_request:
                self._kept.append(event.message)
                self.asked[id(event.message)] += 1
        if step.kind is StepKind.STOPPED:
            self.stops.append(step.node.node_id)
        self.leaders += [step.node.node_id for change in step.changes if isinstance(change, LeadershipTaken)]

    def now_and_then(self, cluster: ClusterView) -> None:
        """Nothing to judge."""

    def settled(self, cluster: ClusterView) -> None:
        """Nothing to judge."""

    def at_end(self, cluster: ClusterView) -> None:
        """Nothing to judge."""

    def over(self, cluster: ClusterView) -> None:
        """See `Checker`."""


class Staged:
    """A cluster in its fourth second, all rules checked, nothing wrong with it so far."""

    def __init__(self, seed: int = 5, **plan: Any) -> None:
        self.seen = Seen()
        chosen = Plan(**({"seed": seed, "scripted_brokers": 0, "admins": 1, "think_ms": 50} | plan))
        self.cluster = SimCluster(chosen, checkers=[*all_checkers(), self.seen])
        self.nodes = self.cluster.nodes
        self.network = self.cluster.world.network
        self.cluster.start()
        self.run(3_000)
        assert self.seen.deaths == []
        self.seen.forget()

    def run(self, ms: int) -> None:
        """Time passes."""
        self.cluster.run_for(ms)

    def happen(self, kind: FaultKind, *who: int, for_ms: int = 500, amount: int = 0) -> None:
        """A fault, at once."""
        order = list(self.nodes)
        at_ms = self.cluster.now_us // 1_000
        fault = Fault(at_ms=at_ms, kind=kind, who=tuple(map(order.index, who)), for_ms=for_ms, amount=amount)
        self.cluster.fault_injector.plan((fault,))
        self.run(1)

    @property
    def leader(self) -> int:
        """Who leads now."""
        found = self.cluster.leader()
        assert found is not None
        return found.node_id

    def follower(self) -> int:
        """One of those that do not."""
        return next(each.node_id for each in self.cluster.controllers if each.node_id != self.leader)

    def runs(self) -> list[int]:
        """How often each node was started."""
        return [each.run for each in self.nodes.values()]


# Processes


@pytest.mark.parametrize(
    ("kind", "amount", "is_lossy"),
    [
        (FaultKind.KILL, 0, False),
        (FaultKind.POWER, 0, True),
        (FaultKind.CRASH_STEP, 0, False),
        (FaultKind.CRASH_DISK, 3, True),
    ],
)
def test_one_process_dies_once_and_starts_again(kind: FaultKind, amount: int, *, is_lossy: bool) -> None:
    """fault:S2, fault:S7, fault:S50: of the node that is named; the others go on."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(kind, node_id, amount=amount)
    staged.run(3_000)
    assert staged.seen.deaths == [(node_id, is_lossy)]
    assert staged.runs() == [2 if each == node_id else 1 for each in staged.nodes]


@pytest.mark.parametrize(("kind", "is_lossy"), [(FaultKind.KILL_ALL, False), (FaultKind.BLACKOUT, True)])
def test_all_processes_die_at_once(kind: FaultKind, *, is_lossy: bool) -> None:
    """fault:S5, fault:S52: and start in an order of their own."""
    staged = Staged(brokers=1)
    staged.happen(kind, staged.leader, for_ms=400, amount=0b1101_0110)
    assert sorted(staged.seen.deaths) == [(each, is_lossy) for each in staged.nodes]
    staged.run(3_000)
    assert staged.runs() == [2] * len(staged.nodes)


def test_a_rack_loses_power_and_only_that() -> None:
    """Section 6.1: the nodes that stand together; without racks, the one that is named."""
    staged = Staged(brokers=3, racks=3)
    staged.happen(FaultKind.RACK, 1)
    assert sorted(staged.seen.deaths) == [(1, True), (103, True)]
    staged = Staged(brokers=1)
    staged.happen(FaultKind.RACK, 1)
    assert staged.seen.deaths == [(1, True)]


def test_a_hunt_kills_leaders_as_soon_as_they_lead() -> None:
    """fault:S6: the one that leads, and whoever is next."""
    staged = Staged()
    first = staged.leader
    staged.happen(FaultKind.HUNT, first, for_ms=20_000)
    staged.run(20_000)
    assert 2 <= len(staged.seen.deaths) <= 5
    assert set(staged.seen.reasons) == {"hunted"}
    assert staged.seen.deaths[0] == (first, False)
    assert staged.seen.deaths[1] != (first, False)
    assert isinstance(staged.nodes[staged.leader].raft.role, Leader)  # type: ignore[union-attr]


def test_a_crash_loop_hits_one_node_again_and_again() -> None:
    """fault:S11, fault:S12: and nobody else, also while it recovers from the death before; then it stays."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(FaultKind.LOOP, node_id, for_ms=2_000, amount=200)
    staged.run(5_000)
    assert len(staged.seen.deaths) >= 5
    assert set(staged.seen.deaths) == {(node_id, False)}
    assert staged.nodes[node_id].is_up


def test_a_vote_that_is_on_disk_is_lost_with_its_voter() -> None:
    """fault:S7: the leader dies, and whoever is asked for a vote next dies before it is told."""
    for seed in range(6, 15):
        staged = Staged(seed=seed)
        leader, voter = staged.leader, staged.follower()
        staged.happen(FaultKind.CRASH_VOTE, voter)
        assert staged.seen.deaths == [(leader, False)]
        staged.run(6_000)
        if (voter, False) in staged.seen.deaths:
            assert staged.cluster.markers.counts["vote on disk, answer lost in a crash"] == 1
            return
    pytest.fail("in no run the voter was asked for its vote")


def test_a_restart_is_a_clean_stop() -> None:
    """fault:S10: nothing dies."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(FaultKind.RESTART, node_id)
    staged.run(3_000)
    assert (staged.seen.stops, staged.seen.deaths) == ([node_id], [])
    assert staged.nodes[node_id].run == 2


def test_a_pause_stands_still_and_ends() -> None:
    """fault:S8: a leader that is paused for long is replaced; the process is the same afterwards."""
    staged = Staged()
    leader = staged.leader
    staged.happen(FaultKind.PAUSE, leader, for_ms=6_000)
    staged.run(5_000)
    assert staged.nodes[leader].is_paused
    assert staged.seen.leaders
    assert leader not in staged.seen.leaders
    staged.run(2_000)
    assert not staged.nodes[leader].is_paused
    assert staged.runs() == [1, 1, 1]


def test_a_controller_dies_between_the_slices_of_a_decision() -> None:
    """fault:S7: a broker goes, partition by partition, and with it the controller that is moving what it led."""
    limits = Limits(controller_slice_size=1, broker_session_timeout_ms=1_500, broker_heartbeat_interval_ms=300)
    staged = Staged(brokers=2, limits=limits, think_ms=20)
    staged.run(1_000)
    leader = staged.leader
    staged.happen(FaultKind.CRASH_MOVES, leader)
    staged.happen(FaultKind.KILL, 101, for_ms=10_000)
    staged.run(2_500)
    assert (leader, False) in staged.seen.deaths
    assert "killed between the steps of a decision" in staged.seen.reasons


# The network


def _far(count: int) -> set[tuple[int, int]]:
    return {
        (one, two)
        for one in range(1, count + 1)
        for two in range(1, count + 1)
        if one != two and (one - two) % count not in (1, count - 1)
    }


@pytest.mark.parametrize(
    ("kind", "who", "amount", "cut"),
    [
        (FaultKind.CUT, (1, 2), 1, {(1, 2)}),
        (FaultKind.CUT, (1, 2), 0, {(2, 1)}),
        (FaultKind.ISOLATE, (3,), 0, {(3, each) for each in (1, 2, 4, 5)} | {(each, 3) for each in (1, 2, 4, 5)}),
        (
            FaultKind.SPLIT,
            (1,),
            0b00011,
            {(a, b) for a in (1, 2) for b in (3, 4, 5)} | {(b, a) for a in (1, 2) for b in (3, 4, 5)},
        ),
        (FaultKind.RING, (1,), 0, _far(5)),
    ],
)
def test_what_is_cut_is_healed(kind: FaultKind, who: tuple[int, ...], amount: int, cut: set[tuple[int, int]]) -> None:
    """fault:S20, fault:S25, fault:S26, fault:S27: one direction, one node, two sides, a ring of majorities."""
    staged = Staged(controllers=5, voters=5)
    staged.happen(kind, *who, for_ms=1_000, amount=amount)
    assert set(staged.network.cuts) == cut
    staged.run(1_500)
    assert staged.network.cuts == {}


def test_a_link_that_flaps_goes_and_comes() -> None:
    """fault:S28: again and again as long as the fault lasts."""
    staged = Staged()
    staged.happen(FaultKind.FLAP, 2, for_ms=1_000, amount=200)
    states = []
    for _ in range(40):
        staged.run(100)
        states.append(bool(staged.network.cuts))
    changes = sum(one is not two for one, two in pairwise(states))
    assert changes >= 6
    assert states[-10:] == [False] * 10


def test_a_slow_network_delays_answers() -> None:
    """fault:S29: fewer of them come in the same time."""
    quick, slow = Staged(), Staged()
    slow.happen(FaultKind.SLOW_NET, 1, for_ms=4_000, amount=400)
    for staged in (quick, slow):
        staged.run(4_000)
    assert slow.seen.answers < 0.8 * quick.seen.answers
    slow.run(200)
    assert slow.network.quality == quick.network.quality


def test_connections_go_silent() -> None:
    """fault:S29, fault:S33: what was sent on them never arrives, and only time tells."""
    staged = Staged()
    staged.happen(FaultKind.DROP, 1, for_ms=4_000, amount=20)
    staged.run(8_000)
    assert staged.seen.unheard[SendFailure.TIMED_OUT] > 0
    assert staged.network.quality.drop_chance == 0


def test_requests_arrive_once_more() -> None:
    """fault:S30: much later."""
    staged = Staged()
    staged.happen(FaultKind.REPEAT, 1, for_ms=2_000, amount=50)
    staged.run(8_000)
    assert max(staged.seen.asked.values()) == 2
    assert staged.network.quality.repeat_chance == 0


def test_a_leaders_answers_come_when_another_one_is_followed() -> None:
    """fault:S29, inv:R20: with records, at the end of the follower's log, and too late; afterwards answers come in time again."""
    limits = Limits(
        controller_quorum_election_timeout_ms=200,
        controller_quorum_fetch_timeout_ms=400,
        controller_quorum_request_timeout_ms=1_600,
        metadata_max_idle_interval_ms=100,
    )
    staged = Staged(limits=limits)
    leader = staged.leader
    staged.happen(FaultKind.LATE_ANSWERS, leader, for_ms=1_500)
    assert set(staged.network.kept) == {(leader, each) for each in staged.nodes}
    staged.run(1_400)
    assert staged.seen.leaders[0] != leader
    assert staged.cluster.markers.counts["late fetch answer of an older epoch dropped"] >= 1
    staged.run(200)
    assert staged.network.kept == {}
    assert staged.seen.deaths == []


def test_connections_die_under_their_requests() -> None:
    """fault:S31: both ends notice."""
    staged = Staged()
    staged.happen(FaultKind.RESET, 1, amount=100)
    staged.run(100)
    assert staged.seen.unheard[SendFailure.DISCONNECTED] > 0
    assert staged.seen.closed > 0
    assert staged.seen.deaths == []


# Clocks


def test_a_clock_that_drifts_is_ahead_afterwards() -> None:
    """fault:S42: by as much as it ran too fast, and no more."""
    staged = Staged()
    staged.happen(FaultKind.DRIFT, 2, for_ms=3_000, amount=2_000_000)
    staged.run(5_000)
    assert 2_990 <= staged.cluster.local_ms(2) - staged.cluster.local_ms(3) <= 3_010


@pytest.mark.parametrize("amount", [3_600_000, -1_700_000_000_000])
def test_a_wall_clock_jumps_once(amount: int) -> None:
    """fault:S40: the monotonic clock goes on."""
    staged = Staged()
    staged.happen(FaultKind.JUMP, 2, for_ms=1_000, amount=amount)
    staged.run(5_000)
    assert staged.nodes[2].clock.wall_offset_ms == amount
    assert staged.cluster.local_ms(2) == staged.cluster.local_ms(3)


def test_a_wall_clock_that_jumps_by_little_goes_on_jumping() -> None:
    """fault:S41: as long as the fault lasts."""
    staged = Staged()
    staged.happen(FaultKind.JUMP, 2, for_ms=700, amount=200)
    offsets = []
    for _ in range(5):
        staged.run(1_000)
        offsets.append(staged.nodes[2].clock.wall_offset_ms)
    assert offsets[0] < offsets[1] < offsets[2] == offsets[3] == offsets[4]


# Disks


def test_a_slow_disk_is_slow_for_its_time() -> None:
    """fault:S60, S4-60: what the node measured of its syncs is what they took."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(FaultKind.SLOW_DISK, node_id, for_ms=3_000, amount=400)
    staged.run(3_000)
    slow = staged.nodes[node_id].plane.witness.flushes  # type: ignore[union-attr]
    usual = staged.nodes[staged.leader].plane.witness.flushes  # type: ignore[union-attr]
    assert 100 < slow.max_ms <= 402
    assert usual.max_ms <= 1
    staged.run(3_000)
    assert slow.last_ms <= 1


@pytest.mark.parametrize("kind", [FaultKind.FAIL_WRITE, FaultKind.FAIL_SYNC, FaultKind.FULL])
def test_a_disk_that_refuses_ends_the_process(kind: FaultKind) -> None:
    """fault:S57, fault:S58, fault:S59: the metadata log's node stops (inv:D3) and starts again when it may."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(kind, node_id, for_ms=800, amount=1)
    staged.run(3_000)
    assert staged.nodes[node_id].disk.refusals > 0
    assert set(staged.seen.deaths) == {(node_id, False)}
    staged.run(12_000)
    assert staged.nodes[node_id].is_up
    assert not staged.nodes[node_id].disk.is_full


def test_rot_changes_one_bit_of_one_file() -> None:
    """fault:S61: of a node that is down for it."""
    staged = Staged(limits=SMALL)
    node_id = staged.follower()
    disk = staged.nodes[node_id].disk
    before = {name: disk.read_file(f"{METADATA_DIRECTORY}/{name}") or b"" for name in disk.listdir(METADATA_DIRECTORY)}
    staged.happen(FaultKind.ROT, node_id, for_ms=60_000, amount=12_345)
    after = {name: disk.read_file(f"{METADATA_DIRECTORY}/{name}") or b"" for name in disk.listdir(METADATA_DIRECTORY)}
    changed = [name for name in before if before[name] != after[name]]
    assert len(changed) == 1
    flipped = [one ^ two for one, two in zip(before[changed[0]], after[changed[0]], strict=True) if one != two]
    assert [each.bit_count() for each in flipped] == [1]
    assert staged.seen.deaths == [(node_id, False)]


def test_a_node_whose_quorum_state_cannot_be_read_refuses_to_start() -> None:
    """fault:S61, inv:D4: it does not guess whom it voted for."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(FaultKind.ROT_STATE, node_id, for_ms=100)
    staged.run(1_000)
    assert "quorum-state" in staged.nodes[node_id].start_refused
    assert staged.seen.deaths[0] == (node_id, False)


def test_a_node_that_cannot_read_its_metadata_stops_and_starts_again() -> None:
    """inv:D4: EIO at a read is no end of the log."""
    staged = Staged()
    node_id = staged.follower()
    disk = staged.nodes[node_id].disk
    staged.happen(FaultKind.FAIL_READ, node_id, amount=1)
    staged.happen(FaultKind.KILL, node_id, for_ms=10)
    staged.run(3_000)
    assert (disk.fail_reads, disk.refusals) == (0, 1)
    staged.run(8_000)
    assert staged.nodes[node_id].raft is not None


def test_a_voter_that_moves_to_another_address_is_found_there() -> None:
    """KIP-853: it tells the leader where it is (UpdateRaftVoter), and the leader writes it down."""
    staged = Staged()
    node_id = staged.follower()
    staged.happen(FaultKind.READDRESS, node_id, for_ms=100)
    staged.run(15_000)
    voters = staged.nodes[staged.leader].raft.voters.voters  # type: ignore[union-attr]
    assert [each.end_points[0].host for each in voters] == [staged.nodes[each].host for each in (1, 2, 3)]
    assert staged.nodes[node_id].host == f"n{node_id}x"


def test_a_replaced_disk_is_another_one() -> None:
    """fault:S64: with an id of its own; the operator takes the old one out of the voters and puts the new one in."""
    staged = Staged(changes_voters=True)
    node_id = staged.follower()
    old = staged.nodes[node_id].directory_id
    staged.happen(FaultKind.REPLACE, node_id)
    assert staged.cluster.lost_directories == [old]
    staged.run(20_000)
    assert staged.nodes[node_id].directory_id != old
    voters = staged.nodes[staged.leader].raft.voters.voters  # type: ignore[union-attr]
    assert old not in {each.directory_id for each in voters}


def test_faults_that_stop_leave_nothing_behind() -> None:
    """Section 3: every run ends with a healing phase, in which everything works again."""
    staged = Staged(controllers=5, voters=5, limits=SMALL)
    kinds = [each for each in FaultKind if each not in (FaultKind.ROT, FaultKind.ROT_STATE)]
    for number, kind in enumerate(kinds):
        staged.happen(
            kind,
            *((1 + number % 5, 1 + (number + 1) % 5) if kind is FaultKind.CUT else (1 + number % 5,)),
            for_ms=60_000,
            amount=1,
        )
    staged.cluster.heal()
    staged.run(6_000)
    assert (staged.network.cuts, staged.network.kept) == ({}, {})
    assert staged.cluster.has_common_leader()
    for node in staged.nodes.values():
        disk = node.disk
        assert (disk.is_full, disk.fail_syncs, disk.fail_writes, disk.fail_reads) == (False, 0, 0, 0)
        assert (node.clock.rate_ppm, node.disk_wait_us, node.is_paused) == (1_000_000, (20, 400), False)


def test_every_kind_has_its_test() -> None:
    """A kind that is drawn and does nothing would make runs look harder than they are."""
    tests = Path(__file__).read_text()
    assert [kind for kind in FaultKind if f"FaultKind.{kind.name}" not in tests] == []


def with_directories() -> Staged:
    """One broker with two log directories, to which somebody writes."""
    return Staged(controllers=1, voters=1, brokers=1, producers=2, admins=0, directories=2, is_dynamic=False)


def logs_of(staged: Staged, node_id: int) -> dict[Any, Any]:
    """The logs of a broker that are online."""
    machine = staged.nodes[node_id].machine
    assert machine is not None
    assert machine.broker is not None
    return dict(machine.broker.logs.logs())


def test_a_replica_goes_to_the_other_directory() -> None:
    """inv:P20: while it is written, and whoever writes notices nothing."""
    staged = with_directories()
    node_id = list(staged.nodes)[-1]
    before = {name: log.directory for name, log in logs_of(staged, node_id).items()}
    staged.happen(FaultKind.MOVE_LOG, node_id, amount=1 << 16)
    staged.run(4_000)
    after = {name: log.directory for name, log in logs_of(staged, node_id).items()}
    assert len([name for name in before if after[name] != before[name]]) == 1
    assert staged.cluster.markers.counts["log moved to another directory while it was in use"] == 1
    assert staged.seen.deaths == []


def test_one_of_two_directories_fails_and_works_again_after_a_restart() -> None:
    """fault:S66: its broker goes on with the other, and starts anew when it works again."""
    staged = with_directories()
    node_id = list(staged.nodes)[-1]
    all_logs = set(logs_of(staged, node_id))
    staged.happen(FaultKind.FAIL_DIRECTORY, node_id, for_ms=3_000)
    staged.run(2_500)
    assert staged.seen.deaths == []
    assert set(logs_of(staged, node_id)) < all_logs
    staged.run(6_000)
    assert staged.seen.deaths == [(node_id, False)]
    assert set(logs_of(staged, node_id)) == all_logs
