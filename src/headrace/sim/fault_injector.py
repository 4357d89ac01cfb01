"""Each kind of fault as it happens to a simulated cluster, and when it ends.

`_HOW` has one entry a kind. What must stay possible is kept here too: disks are destroyed only in a minority of the voters, and only a
node whose disk was tampered with may refuse to start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from headrace.raft.roles import Leader
from headrace.sim.faults import LEADER, Fault, FaultKind
from headrace.sim.log_directories import ask_for_move, has_lost_directory
from headrace.sim.node_observer import METADATA_DIRECTORY
from headrace.sim.observation import Crash
from headrace.storage.snapshot_files import QUORUM_STATE_FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.raft.voters import VoterSet
    from headrace.sim.node import SimNode
    from headrace.sim.observation import NodeView
    from headrace.sim.stage import Stage


_STROBE_MS: Final = 200
"""How often a wall clock jumps that jumps by little."""


class FaultInjector:
    """The faults of one run."""

    def __init__(self, cluster: Stage) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._is_over = False
        self._tampered: set[int] = set()
        self._destroyed = 0
        self._hunts = 0
        self._moves_to_cut = 0
        self._late: dict[int, int] = {}
        """Node whose answers are kept -> the epoch it was in."""
        self._usual = cluster.world.network.quality

    def plan(self, faults: Sequence[Fault]) -> None:
        """Have them happen when their time comes."""
        for fault in faults:
            self._world.schedule.at(fault.at_ms * 1_000, self._begin, fault)

    def may_refuse(self, node: SimNode) -> bool:
        """The node's disk rotted, or failed a call of this very start."""
        return node.node_id in self._tampered or node.disk.refusals > node.refusals_at_start

    def stop(self) -> None:
        """No more faults; everything that was broken works again."""
        self._is_over = True
        self._hunts = self._moves_to_cut = 0
        self._world.network.cuts.clear()
        for source in list(self._late):
            self._in_time(source)
        self._world.network.quality = self._usual
        for node in self._cluster.nodes.values():
            node.disk.forget_faults()
            node.disk_wait_us = (20, 400)
            node.die_after_effects = None
            node.dies_after_vote = False
            node.clock.set_rate(1_000_000)
            if node.is_paused:
                node.resume()
            if node.is_up and has_lost_directory(node):
                node.die(Crash(is_lossy=False, reason="its log directories work again"))
            if not node.is_up:
                self._cluster.start_later(node, 10)

    def after_step(self) -> None:
        """A hunt kills whoever has just begun to lead; another fault, who is in the middle of a decision of several steps.

        Late answers come to whoever has just begun to follow the next leader.
        """
        if self._late:
            self._come_late(self._world.step.node)
        if self._moves_to_cut > 0:
            node = self._world.step.node
            if node.is_up and node.controller is not None and node.controller.statistics.waiting > 0:
                self._moves_to_cut -= 1
                self._world.schedule.after(self._world.disk_chance.randrange(1, 600), self._kill_moving, node)
        if self._hunts > 0:
            node = self._world.step.node
            raft = node.raft
            if raft is not None and isinstance(raft.role, Leader):
                self._hunts -= 1
                self._world.schedule.after(self._world.disk_chance.randrange(1, 3_000), self._kill_hunted, node)

    def _kill_hunted(self, node: SimNode, _: object) -> None:
        if node.is_up and not self._is_over:
            self._down(node, Crash(is_lossy=False, reason="hunted"), 300)

    def _kill_moving(self, node: SimNode, _: object) -> None:
        if node.is_up and not self._is_over:
            self._down(node, Crash(is_lossy=False, reason="killed between the steps of a decision"), 300)

    # --- beginnings ---

    def _begin(self, fault: Fault, _: object) -> None:
        if self._is_over:
            return
        nodes = [self._resolve(number) for number in fault.who]
        self._cluster.markers.hit(f"fault: {fault.kind.value}")
        _HOW[fault.kind](self, fault, nodes)

    def _resolve(self, number: int) -> SimNode:
        cluster = self._cluster
        if number == LEADER:
            leader = cluster.leader()
            if leader is not None:
                return leader
            number = 0
        every = list(cluster.nodes.values())
        return every[number % len(every)]

    def _later(self, wait_ms: int, do: Callable[[], None]) -> None:
        self._world.schedule.after(wait_ms * 1_000, _call, do)

    def _down(self, node: SimNode, crash: Crash, for_ms: int, *, is_dark: bool = False) -> None:
        if node.is_up:
            node.die(crash, is_dark=is_dark)
            self._cluster.start_later(node, for_ms)

    def _kill(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._down(nodes[0], Crash(is_lossy=False, reason="killed"), fault.for_ms)

    def _kill_all(self, fault: Fault, nodes: list[SimNode]) -> None:
        for number, node in enumerate(self._cluster.nodes.values()):
            wait = (fault.amount >> (number % 20)) % (fault.for_ms + 1)
            self._down(node, Crash(is_lossy=False, reason="all killed"), wait)

    def _power(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._down(nodes[0], Crash(is_lossy=True, reason="power cut"), fault.for_ms, is_dark=True)

    def _blackout(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._cluster.markers.hit("all controllers lost power at once")
        for number, node in enumerate(self._cluster.nodes.values()):
            wait = (fault.amount >> (number % 20)) % (fault.for_ms + 1)
            if node.is_up:
                self._down(node, Crash(is_lossy=True, reason="blackout"), wait, is_dark=True)
            else:
                node.die(Crash(is_lossy=True, reason="blackout"), is_dark=True)

    def _rack(self, fault: Fault, nodes: list[SimNode]) -> None:
        rack = self._cluster.rack_of(nodes[0].node_id)
        if rack is None:  # it stands by itself
            self._power(fault, nodes)
            return
        for node in self._cluster.nodes.values():
            if self._cluster.rack_of(node.node_id) == rack:
                self._down(node, Crash(is_lossy=True, reason=f"{rack} lost power"), fault.for_ms, is_dark=True)

    def _hunt(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._hunts = 5

        def over() -> None:
            self._hunts = 0

        self._later(fault.for_ms, over)

    def _loop(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = nodes[0]
        end_us = self._world.schedule.now_us + fault.for_ms * 1_000

        def again() -> None:
            if not self._is_over and self._world.schedule.now_us < end_us:
                self._down(node, Crash(is_lossy=False, reason="crash loop"), 20)
                self._later(20 + fault.amount, again)

        again()

    def _crash_step(self, fault: Fault, nodes: list[SimNode]) -> None:
        nodes[0].die_after_effects = fault.amount

    def _crash_vote(self, fault: Fault, nodes: list[SimNode]) -> None:
        """A vote is wanted for it: the leader dies, unless it is the one that is to vote."""
        nodes[0].dies_after_vote = True
        leader = self._cluster.leader()
        if leader is not None and leader is not nodes[0]:
            self._down(leader, Crash(is_lossy=False, reason="killed for an election"), fault.for_ms)

    def _crash_moves(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._moves_to_cut = 1

    def _crash_disk(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = nodes[0]
        if node.is_up:
            node.dies_lossy = True
            node.disk.die_at_call = node.disk.calls + fault.amount

    def _restart(self, fault: Fault, nodes: list[SimNode]) -> None:
        nodes[0].stop()

    def _pause(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = nodes[0]
        if node.is_up and not node.is_paused:
            run = node.run
            node.pause()

            def go_on() -> None:
                if node.run == run:
                    node.resume()

            self._later(fault.for_ms, go_on)

    # --- the network ---

    def _cut_pairs(self, pairs: list[tuple[int, int]], for_ms: int) -> None:
        network = self._world.network
        for pair in pairs:
            network.cut(*pair)

        def heal() -> None:
            if not self._is_over:
                for pair in pairs:
                    network.heal(*pair)

        self._later(for_ms, heal)

    def _cut(self, fault: Fault, nodes: list[SimNode]) -> None:
        pair = (nodes[0].node_id, nodes[1].node_id)
        self._cut_pairs([pair if fault.amount & 1 else pair[::-1]], fault.for_ms)

    def _isolate(self, fault: Fault, nodes: list[SimNode]) -> None:
        one = nodes[0].node_id
        others = [other for other in self._cluster.nodes if other != one]
        self._cut_pairs([pair for other in others for pair in ((one, other), (other, one))], fault.for_ms)

    def _split(self, fault: Fault, nodes: list[SimNode]) -> None:
        sides = {node_id: (fault.amount >> (number % 20)) & 1 for number, node_id in enumerate(self._cluster.nodes)}
        self._cut_pairs([(one, two) for one in sides for two in sides if sides[one] != sides[two]], fault.for_ms)

    def _ring(self, fault: Fault, nodes: list[SimNode]) -> None:
        ids = [node.node_id for node in self._cluster.controllers]
        count = len(ids)
        far = [
            (ids[one], ids[two])
            for one in range(count)
            for two in range(count)
            if (one - two) % count not in (0, 1, count - 1)
        ]
        self._cut_pairs(far, fault.for_ms)

    def _flap(self, fault: Fault, nodes: list[SimNode]) -> None:
        end_us = self._world.schedule.now_us + 2 * fault.for_ms * 1_000

        def again() -> None:
            if not self._is_over and self._world.schedule.now_us < end_us:
                self._isolate(replace(fault, for_ms=fault.amount), nodes)
                self._later(2 * fault.amount, again)

        again()

    def _worse(self, for_ms: int, **changes: float) -> None:
        network = self._world.network
        network.quality = replace(network.quality, **changes)  # type: ignore[arg-type]
        usual = {name: getattr(self._usual, name) for name in changes}

        def better() -> None:
            if not self._is_over:
                network.quality = replace(network.quality, **usual)

        self._later(for_ms, better)

    def _slow_net(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._worse(fault.for_ms, slow_chance=0.3, slow_max_us=self._usual.delay_max_us + fault.amount * 1_000)

    def _drop(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._worse(fault.for_ms, drop_chance=fault.amount / 100)

    def _repeat(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._worse(fault.for_ms, repeat_chance=fault.amount / 100)

    def _late_answers(self, fault: Fault, nodes: list[SimNode]) -> None:
        source = nodes[0]
        if source.raft is None or source.node_id in self._late:
            return
        self._late[source.node_id] = source.raft.epoch
        for other in self._cluster.nodes:
            self._world.network.keep_answers(source.node_id, other)

        def over() -> None:
            if not self._is_over:
                self._in_time(source.node_id)

        self._later(fault.for_ms, over)

    def _come_late(self, asker: NodeView) -> None:
        """The asker knows a later leader, and its next answer is under way: now the former leader's come first."""
        raft = asker.raft
        if raft is None or raft.leader_id < 0:
            return
        for source, epoch in self._late.items():
            if raft.epoch > epoch:
                self._world.network.let_go(source, asker.node_id)

    def _in_time(self, source: int) -> None:
        del self._late[source]
        for other in self._cluster.nodes:
            self._world.network.let_go(source, other)

    def _reset(self, fault: Fault, nodes: list[SimNode]) -> None:
        self._world.network.reset_some(fault.amount / 100)

    # --- clocks and disks ---

    def _drift(self, fault: Fault, nodes: list[SimNode]) -> None:
        clock = nodes[0].clock
        clock.set_rate(fault.amount)
        self._later(fault.for_ms, lambda: clock.set_rate(1_000_000))

    def _jump(self, fault: Fault, nodes: list[SimNode]) -> None:
        """A wall clock jumps once, or, by little, again and again as long as the fault lasts (S40, S41)."""
        clock = nodes[0].clock
        clock.jump_wall(fault.amount)
        if abs(fault.amount) > _STROBE_MS:
            return
        end_us = self._world.schedule.now_us + 4 * fault.for_ms * 1_000

        def again() -> None:
            if not self._is_over and self._world.schedule.now_us < end_us:
                clock.jump_wall(2 * fault.amount)
                self._later(_STROBE_MS, again)

        self._later(_STROBE_MS, again)

    def _slow_disk(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = nodes[0]
        node.disk_wait_us = (1_000, 1_000 + fault.amount * 1_000)

        def faster() -> None:
            node.disk_wait_us = (20, 400)

        self._later(fault.for_ms, faster)

    def _fail_write(self, fault: Fault, nodes: list[SimNode]) -> None:
        nodes[0].disk.fail_writes = fault.amount

    def _fail_sync(self, fault: Fault, nodes: list[SimNode]) -> None:
        nodes[0].disk.fail_syncs = fault.amount

    def _fail_read(self, fault: Fault, nodes: list[SimNode]) -> None:
        nodes[0].disk.fail_reads = fault.amount

    def _full(self, fault: Fault, nodes: list[SimNode]) -> None:
        disk = nodes[0].disk
        disk.is_full = True

        def room() -> None:
            disk.is_full = False

        self._later(fault.for_ms, room)

    def _are_addresses_known(self, voters: VoterSet) -> bool:
        """The voters say where each of them listens: who moved and did not tell yet is as good as gone for the others."""
        hosts = {each.voter_id: {one.host for one in each.end_points} for each in voters.voters if each.end_points}
        return all(hosts[each] == {self._cluster.nodes[each].host} for each in hosts)

    def _may_destroy(self, node: SimNode) -> bool:
        """Disks of a minority of the voters may go, and no second one before the quorum has got over the first.

        While a change of the voters is not committed the voters before it may come into force again: nothing goes.
        """
        cluster = self._cluster
        leader = cluster.leader()
        if leader is None or leader.raft is None:
            return False
        voters = leader.raft.voters
        if leader.raft.voter_change is not None:
            return False
        if node.node_id not in voters.ids:
            return True
        if not self._are_addresses_known(voters):
            return False
        has_more = self._destroyed < (cluster.plan.voters - 1) // 2 and len(voters.voters) > 2
        return has_more and self._are_whole(voters)

    def _are_whole(self, voters: VoterSet) -> bool:
        """Each voter has the disk that it was made a voter with, untouched."""
        disks = {each.voter_id: self._cluster.nodes[each.voter_id].directory_id for each in voters.voters}
        return all(disks[each.voter_id] == each.directory_id for each in voters.voters) and not self._tampered & {
            *disks
        }

    def _rot(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = nodes[0]
        if node.node_id in self._tampered or not self._may_destroy(node):
            return
        if not node.disk.exists(METADATA_DIRECTORY):
            return  # a disk that was replaced and that no process has used yet
        names = _known_to_be_synced(node.disk.listdir(METADATA_DIRECTORY))
        if not names:
            return
        self._tampered.add(node.node_id)
        self._destroyed += 1
        crash = Crash(is_lossy=False, is_rotten=True, reason="killed to rot")
        was_up = node.is_up
        node.die(crash)
        if was_up:
            self._cluster.start_later(node, fault.for_ms)
        path = f"{METADATA_DIRECTORY}/{names[fault.amount % len(names)]}"
        size = len(node.disk.read_file(path) or b"")
        if size:
            node.disk.flip_bit(path, fault.amount // 7 % size, fault.amount % 8)

    def _rot_state(self, fault: Fault, nodes: list[SimNode]) -> None:
        """The first byte of quorum-state is no JSON any more: the node must refuse to start and not guess whom it voted for (D4)."""
        node = nodes[0]
        path = f"{METADATA_DIRECTORY}/{QUORUM_STATE_FILE_NAME}"
        if node.node_id in self._tampered or not node.disk.durable_bytes(path) or not self._may_destroy(node):
            return
        self._tampered.add(node.node_id)
        self._destroyed += 1
        was_up = node.is_up
        node.die(Crash(is_lossy=False, is_rotten=True, reason="killed to rot"))
        if was_up:
            self._cluster.start_later(node, fault.for_ms)
        node.disk.flip_bit(path, 0, 7)
        self._cluster.markers.hit("rotten quorum-state")

    def _readdress(self, fault: Fault, nodes: list[SimNode]) -> None:
        """One voter at a time, and not the leader: the others must know where the last one went, and none of them be without its disk."""
        node, leader = nodes[0], self._cluster.leader()
        if leader is None or leader.raft is None or leader is node or not self._cluster.plan.is_dynamic:
            return
        if leader.raft.voter_change is not None:
            return
        voters = leader.raft.voters
        ids, is_whole = voters.ids, self._are_addresses_known(voters) and self._are_whole(voters)
        if not node.is_up or node.node_id not in ids or len(ids) < 3 or not is_whole:
            return
        node.die(Crash(is_lossy=False, reason="moved to another host"))
        self._cluster.move_host(node)
        self._cluster.start_later(node, fault.for_ms)
        self._cluster.markers.hit("voter moved to another address")

    def _move_log(self, fault: Fault, nodes: list[SimNode]) -> None:
        """One of the replicas of a broker; now and then where it is, which gives a move up."""
        node = self._with_directories(fault.amount)
        if node is None:
            return

        node.soon(lambda: ask_for_move(node, fault.amount))

    def _with_directories(self, number: int) -> SimNode | None:
        """A broker with several log directories."""
        brokers = [node for node in self._cluster.nodes.values() if len(node.config.log_dirs) > 1]
        return brokers[number % len(brokers)] if brokers else None

    def _fail_directory(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = self._with_directories(fault.amount)
        if node is None:
            return
        node.disk.broken = node.config.log_dirs[-1]

        def works_again() -> None:
            if not self._is_over:
                node.disk.broken = ""
                if has_lost_directory(node):
                    self._down(node, Crash(is_lossy=False, reason="its log directory works again"), 20)

        self._later(fault.for_ms, works_again)

    def _replace(self, fault: Fault, nodes: list[SimNode]) -> None:
        node = nodes[0]
        if self._cluster.plan.is_dynamic and self._may_destroy(node):
            leader = self._cluster.leader()
            if leader is not None and leader.raft is not None and node.node_id in leader.raft.voters.ids:
                self._destroyed += 1
            self._cluster.replace_disk(node)
            self._cluster.start_later(node, fault.for_ms)


def _known_to_be_synced(names: Sequence[str]) -> list[str]:
    """Files of a metadata directory of which the node itself knows that they were synced: snapshots, and segments wholly below the newest.

    Rot elsewhere looks like a torn write and is outside of what is promised (PR9).
    """
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    newest = max((int(name[:20]) for name in snapshots), default=0)
    bases = sorted(int(name[:20]) for name in names if name.endswith(".log"))
    return snapshots + [f"{base:020d}.log" for base, following in pairwise(bases) if following <= newest]


def _call(do: Callable[[], None], _: object) -> None:
    do()


_HOW: Final[dict[FaultKind, Callable[[FaultInjector, Fault, list[SimNode]], None]]] = {
    kind: getattr(FaultInjector, f"_{kind.value.replace('-', '_')}") for kind in FaultKind
}
