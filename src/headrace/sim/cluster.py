"""A simulated cluster, from its first step to its verdict.

    build      nodes with formatted disks, clients, the list of faults, checkers
    break      until `faults_until_ms`: faults happen, clients call
    heal       faults stop, everything restarts, clients go on and then rest, those last that lead partitions; checks of liveness
    judge      what must be true at the end

One seed decides all of it. `SimCluster` implements `observation.ClusterView`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headrace.config.node_config import NodeConfig
from headrace.core.ids import Uuid
from headrace.core.listener import HostPort, Listener, QuorumVoter, SecurityProtocol
from headrace.metadata.versions import ELR_FEATURE
from headrace.raft.epoch_limits import MAX_EPOCHS_AHEAD
from headrace.raft.roles import Leader
from headrace.sim.administrators import Admin, Operator
from headrace.sim.clients import LONGEST_CALL_MS, Client
from headrace.sim.fault_injector import FaultInjector
from headrace.sim.faults import FaultKind
from headrace.sim.formatting import FirstDisk, dynamic_voters, format_disk, format_more
from headrace.sim.group_clients import GroupMember
from headrace.sim.hostile_peer import HostilePeer
from headrace.sim.node import SimNode
from headrace.sim.node_observer import DATA
from headrace.sim.observation import Checker, Crash, InvariantBroken
from headrace.sim.record_clients import RecordConsumer, RecordProducer
from headrace.sim.scripted_broker import FIRST_SCRIPTED_BROKER_ID, LeadingBroker, ScriptedBroker
from headrace.sim.serving import BROKER_PORT, CONTROLLER_PORT, NEWEST_VERSIONS
from headrace.sim.trace import Trace
from headrace.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.raft.voters import VoterSet
    from headrace.sim.plan import Plan

_SETTINGS: Final = frozenset(NodeConfig.__dataclass_fields__)
_CHECK_EVERY: Final = 1_000
_LOOK_MS: Final = 250
"""How often a healed cluster is looked at, whether all that must become true is."""
_LEADER_WITHIN: Final = 10
"""Election timeouts after the faults have stopped (RL1)."""
_LIFTED: Final = 16 * MAX_EPOCHS_AHEAD
"""Epochs that some forged packets lift a node; further it does not go."""
FIRST_BROKER_ID: Final = 101


class SimCluster:
    """A whole cluster on virtual time."""

    def __init__(self, plan: Plan, *, checkers: Sequence[Checker] = ()) -> None:
        self.plan = plan
        self.limits = plan.limits
        self.trace = Trace()
        self.world = World(seed=str(plan.seed), limits=plan.limits, quality=plan.quality)
        self.markers = self.world.markers
        self.world.on_step = self._step_over
        self.world.on_death = self._died
        self.world.network.newest.update(NEWEST_VERSIONS)
        self.world.network.versions.update(plan.versions)
        self.is_healing = False
        self.clients_rest = False
        self.admins_rest = False
        self.think_ms = plan.think_ms
        self.voter_change_ms = 2_000
        self.fewest_voters = min(plan.voters, 3)
        self.lost_directories: list[Uuid] = []
        self.broken: InvariantBroken | None = None
        self._checkers = tuple(checkers)
        self._identities = self.world.chance("identities")
        self.nodes: dict[int, SimNode] = {}
        self._first_directories: dict[int, Uuid] = {}
        self._build_nodes()
        self.controllers = [node for node in self.nodes.values() if node.is_controller]
        self.clients: list[Client] = self._build_clients()
        self.fault_injector = FaultInjector(self)

    # --- what a checker reads ---

    @property
    def now_us(self) -> int:
        """Virtual time in microseconds."""
        return self.world.schedule.now_us

    @property
    def election_timeout_ms(self) -> int:
        """`controller.quorum.election.timeout.ms`."""
        return self.limits.controller_quorum_election_timeout_ms

    @property
    def fetch_timeout_ms(self) -> int:
        """`controller.quorum.fetch.timeout.ms`."""
        return self.limits.controller_quorum_fetch_timeout_ms

    @property
    def broker_session_timeout_ms(self) -> int:
        """`broker.session.timeout.ms`."""
        return self.limits.broker_session_timeout_ms

    def local_ms(self, node_id: int) -> int:
        """The monotonic clock of one node."""
        return self.nodes[node_id].clock.now_ms()

    def latest_wall_ms(self, node_id: int) -> int:
        """The latest time that the wall clock of one node ever showed."""
        return self.nodes[node_id].clock.latest_wall_ms()

    def leader(self) -> SimNode | None:
        """The running node that leads the newest epoch; None when nobody does."""
        found: SimNode | None = None
        newest = -1
        for node in self.controllers:
            raft = node.raft
            if raft is not None and isinstance(raft.role, Leader) and raft.epoch > newest:
                found, newest = node, raft.epoch
        return found

    @property
    def left_behind(self) -> frozenset[int]:
        """Running nodes that a forged packet lifted above the epoch of their quorum, which does not count them as voters (RL1).

        No request of theirs moves the quorum, and no node goes back to an earlier epoch: they follow again when the quorum is past theirs.
        """
        leader = self.leader()
        if not self.plan.hostile_peers or leader is None or leader.raft is None:
            return frozenset()
        raft = leader.raft
        return frozenset(
            node.node_id
            for node in self.nodes.values()
            if node.raft is not None
            and raft.epoch < node.raft.epoch <= raft.epoch + _LIFTED
            and raft.voters.find(node.node_id) is None
        )

    # --- building ---

    def _build_nodes(self) -> None:
        plan = self.plan
        ids = [*range(1, plan.controllers + 1), *range(FIRST_BROKER_ID, FIRST_BROKER_ID + plan.brokers)]
        for node_id in ids:
            self._first_directories[node_id] = self.new_directory_id()
        first = {node_id: self._first_directories[node_id] for node_id in range(1, plan.voters + 1)}
        voters = dynamic_voters(first, CONTROLLER_PORT) if plan.is_dynamic else None
        for node_id in ids:
            node = SimNode(self.world, self._config(node_id), directory_id=self._first_directories[node_id])
            self.nodes[node_id] = node
            self._list_address(node)
            self._format(node, voters if node_id in first else None)

    def _list_address(self, node: SimNode) -> None:
        for port in (CONTROLLER_PORT, BROKER_PORT):
            self.world.network.add_server(node.host, port, node)

    def move_host(self, node: SimNode) -> None:
        """A node that is down has another address when it starts again; nobody listens at the old one."""
        for port in (CONTROLLER_PORT, BROKER_PORT):
            self.world.network.remove_server(node.host, port)
        node.host = f"{node.host}x"
        listeners = tuple(each._replace(host=node.host) for each in node.config.listeners)
        node.config = replace(node.config, listeners=listeners)
        self._list_address(node)

    def new_directory_id(self) -> Uuid:
        """An id for a disk."""
        return Uuid(b"\x40" + self._identities.randbytes(15))

    def _format(self, node: SimNode, voters: VoterSet | None) -> None:
        first = FirstDisk(
            node_id=node.node_id,
            directory_id=node.directory_id,
            voters=voters,
            features={ELR_FEATURE: int(self.plan.has_elr)},
            metadata_version=self.plan.first_metadata_version,
            has_all_records=self.plan.has_all_records,
        )
        format_disk(node.disk, DATA, first)
        for number, path in enumerate(node.config.log_dirs[1:], start=1):
            format_more(node.disk, path, first, number)

    def replace_disk(self, node: SimNode) -> None:
        """An empty disk, formatted without voters, with a new directory id."""
        self.lost_directories.append(node.directory_id)
        node.die(Crash(is_lossy=True, is_disk_lost=True, reason="disk replaced"))
        node.directory_id = self.new_directory_id()
        self._format(node, None)
        self.markers.hit("voter replaced its disk")

    def _config(self, node_id: int) -> NodeConfig:
        plan = self.plan
        roles, listeners = self._roles(node_id)
        settings: dict[str, Any] = dict(plan.limits.settings(_SETTINGS))
        if plan.is_dynamic:
            settings["controller_quorum_auto_join_enable"] = plan.auto_joins and node_id < FIRST_BROKER_ID
            settings["controller_quorum_bootstrap_servers"] = tuple(
                HostPort(f"n{one}", CONTROLLER_PORT) for one in range(1, plan.controllers + 1)
            )
        else:
            settings["controller_quorum_voters"] = tuple(
                QuorumVoter(one, f"n{one}", CONTROLLER_PORT) for one in range(1, plan.voters + 1)
            )
        return NodeConfig(
            node_id=node_id,
            process_roles=roles,
            listeners=listeners,
            log_dirs=(DATA, *(f"/more-{number}" for number in range(1, plan.directories if "broker" in roles else 1))),
            metadata_log_dir=DATA,
            broker_rack=self.rack_of(node_id),
            **settings,
        )

    def _roles(self, node_id: int) -> tuple[tuple[str, ...], tuple[Listener, ...]]:
        """Controllers have low ids; the first of them may be brokers too."""
        roles, listeners = [], []
        for role, name, port, has_it in (
            ("broker", "PLAINTEXT", BROKER_PORT, node_id >= FIRST_BROKER_ID or node_id <= self.plan.combined_nodes),
            ("controller", "CONTROLLER", CONTROLLER_PORT, node_id < FIRST_BROKER_ID),
        ):
            if has_it:
                roles.append(role)
                listeners.append(Listener(name, f"n{node_id}", port, SecurityProtocol.PLAINTEXT))
        return tuple(roles), tuple(listeners)

    def rack_of(self, node_id: int) -> str | None:
        """Nodes stand in racks by turns."""
        return f"rack-{node_id % self.plan.racks}" if self.plan.racks else None

    def _build_clients(self) -> list[Client]:
        plan = self.plan
        clients: list[Client] = [Admin(self, -1 - number) for number in range(plan.admins)]
        if plan.changes_voters or any(fault.kind is FaultKind.REPLACE for fault in plan.faults):
            clients.append(Operator(self, -100))
        if plan.changes_voters and plan.seed % 2:
            clients.append(Operator(self, -101))
        make_broker = LeadingBroker if plan.has_leaders else ScriptedBroker
        for number in range(plan.scripted_brokers):
            broker_id = FIRST_SCRIPTED_BROKER_ID + number
            rack = self.rack_of(broker_id)
            clients.append(
                make_broker(self, -200 - number, broker_id=broker_id, rack=rack, wants_fence=plan.wants_fence)
            )
        clients += [
            RecordProducer(self, -400 - number, number=number, copies=plan.copies) for number in range(plan.producers)
        ]
        clients += [
            RecordConsumer(self, -500 - number, topics=plan.producers, copies=plan.copies)
            for number in range(plan.consumers)
        ]
        clients += [
            GroupMember(self, -600 - number, number=number, copies=plan.copies) for number in range(plan.members)
        ]
        return clients + [HostilePeer(self, -300 - number) for number in range(plan.hostile_peers)]

    # --- running ---

    def run(self) -> None:
        """From the first start to the verdict. Raises InvariantBroken."""
        self.start()
        self.run_until(self.plan.faults_until_ms)
        self.finish()

    def finish(self) -> None:
        """Heal, rest, and judge what must have become true. Raises InvariantBroken."""
        self.heal()
        self._run_until_true(self.has_common_leader, _LEADER_WITHIN * self.election_timeout_ms)
        self._judge_leader()
        if self.plan.has_leaders:
            self._settle()
        self.rest()
        self._run_until_true(self._is_judged_well, self.settle_ms)
        self.judge()

    @property
    def settle_ms(self) -> int:
        """How long the last calls may take to end, and news to reach everybody; where there are copies or groups, also until every broker has registered, each copy is in sync and each group at rest."""
        usual = LONGEST_CALL_MS + 3_000 + 3 * self.fetch_timeout_ms
        return usual if self.plan.copies < 2 and not self.plan.members else usual + 5 * self.broker_session_timeout_ms

    def start(self) -> None:
        """Start all nodes and clients, and plan the faults."""
        for checker in self._checkers:
            checker.begin(self, self.markers)
        for node in self.nodes.values():
            self.world.schedule.after(node.world.disk_chance.randrange(0, 200_000), self._start_node, node)
        for client in self.clients:
            client.begin(client.chance.randrange(0, 500))
        self.fault_injector.plan(self.plan.faults)

    def run_until(self, at_ms: int) -> None:
        """Let everything happen that happens before `at_ms`."""
        run_before = self.world.schedule.run_before
        end_us = at_ms * 1_000
        while run_before(end_us):
            if self.broken is not None:
                raise self.broken

    def run_for(self, ms: int) -> None:
        """Let `ms` pass."""
        self.run_until(self.now_us // 1_000 + ms)

    def _run_until_true(self, is_true: Callable[[], bool], at_most_ms: int) -> None:
        """Go on until what must become true is, at its bound at the latest."""
        end_ms = self.now_us // 1_000 + at_most_ms
        while self.now_us // 1_000 < end_ms:
            self.run_until(min(self.now_us // 1_000 + _LOOK_MS, end_ms))
            if is_true():
                return

    def has_common_leader(self) -> bool:
        """Every running node follows one leader of one epoch, and that leader is a running node (RL1)."""
        behind = self.left_behind
        rafts = [node.raft for node in self.nodes.values() if node.is_up and node.node_id not in behind]
        known = {(raft.leader_id, raft.epoch) for raft in rafts if raft is not None}
        leader = self.leader()
        return (
            len(rafts) + len(behind) == len(self.nodes)
            and None not in rafts
            and len(known) == 1
            and leader is not None
            and leader.node_id == known.pop()[0]
        )

    def _judge_leader(self) -> None:
        """One leader for all, when every process runs (RL1). Raises InvariantBroken."""
        rafts = {node.node_id: node.raft for node in self.nodes.values() if node.is_up}
        if len(rafts) < len(self.nodes) or self.has_common_leader():
            return
        said = {each: (raft.leader_id, raft.epoch) for each, raft in rafts.items() if raft is not None}
        raise InvariantBroken(
            "RL1", f"{_LEADER_WITHIN} election timeouts after the last fault nodes follow (leader, epoch) {said}"
        )

    def _is_judged_well(self) -> bool:
        return _holds([checker.at_end for checker in self._checkers], self)

    def heal(self) -> None:
        """Faults stop; everything restarts."""
        self.is_healing = True
        self.fault_injector.stop()

    def rest(self) -> None:
        """Clients make no more calls."""
        self.clients_rest = True

    def _settle(self) -> None:
        """Administrators rest, and brokers bring to its end what was begun. Raises InvariantBroken when that takes too long."""
        self.admins_rest = True
        self._run_until_true(self._is_settled, self.settle_ms + 4 * self.broker_session_timeout_ms)
        for checker in self._checkers:
            checker.settled(self)

    def _is_settled(self) -> bool:
        if any(client.is_waiting for client in self.clients if client.is_at_rest):
            return False
        return _holds([checker.settled for checker in self._checkers], self)

    def judge_safety(self) -> None:
        """The costly checks of what must hold at any time."""
        for checker in self._checkers:
            checker.now_and_then(self)

    def judge(self) -> None:
        """The checks of the end."""
        for checker in self._checkers:
            checker.now_and_then(self)
            checker.at_end(self)
        for checker in self._checkers:
            checker.over(self)

    # --- nodes that die ---

    def _start_node(self, node: SimNode, _: object = None) -> None:
        """Whoever starts a node tells it where controllers are to be found by now: they may have moved while it was down."""
        if node.is_up:
            return
        if node.config.controller_quorum_bootstrap_servers:
            known = tuple(HostPort(one.host, CONTROLLER_PORT) for one in self.controllers)
            node.config = replace(node.config, controller_quorum_bootstrap_servers=known)
        node.start()

    def start_later(self, node: SimNode, wait_ms: int) -> None:
        """The process is started again in a while."""
        self.world.schedule.after(wait_ms * 1_000, self._start_node, node)

    def _died(self, node_id: int, reason: str) -> None:
        """A process ended by itself or where a fault had set it."""
        node = self.nodes[node_id]
        if reason == "stopped":
            self.start_later(node, 100)
            return
        is_refusal = bool(node.start_refused)
        if is_refusal and not self.fault_injector.may_refuse(node):
            self.fail(InvariantBroken("D4", f"the start was refused: {node.start_refused}", nodes=(node.node_id,)))
        node.die(Crash(is_lossy=node.dies_lossy, reason=reason))
        node.dies_lossy = False
        self.start_later(node, 5_000 if is_refusal else 200)

    # --- after each step ---

    def _step_over(self) -> None:
        step = self.world.step
        self.trace.take(step)
        if self.broken is not None:
            return
        try:
            for checker in self._checkers:
                checker.on_step(step)
            if step.number % _CHECK_EVERY == 0:
                for checker in self._checkers:
                    checker.now_and_then(self)
        except InvariantBroken as broken:
            self.fail(broken)
        self.fault_injector.after_step()

    def fail(self, broken: InvariantBroken) -> None:
        """The run ends after this step."""
        if self.broken is None:
            self.broken = broken
            self.world.is_over = True


def _holds(checks: Sequence[Callable[[SimCluster], None]], cluster: SimCluster) -> bool:
    """Nothing that one of these checks looks at is broken."""
    try:
        for check in checks:
            check(cluster)
    except InvariantBroken:
        return False
    return True
