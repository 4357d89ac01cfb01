"""What breaks a cluster as a plan says, and mends it again. A table of two methods a kind of fault: it begins, and what it began is undone."""

from __future__ import annotations

import heapq
import random
import subprocess
import time
from collections.abc import Callable
from typing import Final

from headrace.testing.member import Member
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.namespaces import Network
from tools.chaos.clients import GROUP, TOPIC
from tools.chaos.links import Quality, SlowLinks
from tools.chaos.plan import Plan, Strike, Whom
from tools.chaos.stage import CLIENTS, EXTRA_BROKER, Stage

Undo = Callable[[], None]
_STOP_S: Final = 60.0
_ASK_S: Final = 5.0
_READY_S: Final = 60.0
_STARTED_S: Final = 180.0
_COPIED_WITHIN_S: Final = 20.0


def nothing() -> None:
    """Nothing is left to undo."""


class Nemesis:
    """Does a plan to a stage. `told` has a line for each fault that happened."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self.told: list[str] = []
        self._disturbed: set[int] = set()
        self._rng = random.Random()
        self._whom = Whom.ANYBODY

    def run(self, plan: Plan) -> None:
        """All of it, in time; at the end everything is undone and every node that should run does.

        Where faults do not overlap, one that takes longer than planned (a machine may be busy) puts the next ones off; what would begin after the
        end of the plan is left out.
        """
        began = time.monotonic()
        agenda: list[tuple[float, int, Strike | Undo]] = [
            (each.at_s, number, each) for number, each in enumerate(plan.strikes)
        ]
        heapq.heapify(agenda)
        while agenda:
            at_s, number, what = heapq.heappop(agenda)
            time.sleep(max(began + at_s - time.monotonic(), 0))
            if isinstance(what, Strike) and time.monotonic() - began > plan.seconds:
                continue
            if isinstance(what, Strike):
                undo = self._strike(what)
                if plan.overlaps:
                    until_s = time.monotonic() - began + what.for_s
                    heapq.heappush(agenda, (until_s, len(plan.strikes) + number, undo))
                else:
                    time.sleep(what.for_s)
                    undo()
            else:
                what()
        time.sleep(max(began + plan.seconds - time.monotonic(), 0))
        self.heal()

    def heal(self) -> None:
        """Nothing is broken any more."""
        if self._stage.links is not None:
            self._stage.links.heal()
        if self._stage.network is not None:
            self._stage.network.heal()
        for member in self._stage.core:
            if not member.is_running:
                self._stage.start_node(member.node_id)
        for member in self._stage.core:
            member.wait_until_ready(_STARTED_S)
        self._tell("all is mended")

    def _strike(self, strike: Strike) -> Undo:
        self._rng = random.Random(strike.seed)
        self._whom = strike.whom
        begin: Callable[[], Undo] = getattr(self, f"_{strike.kind.replace('-', '_')}")
        return begin()

    def _tell(self, text: str) -> None:
        self.told.append(text)
        self._stage.recorder.see("fault", told=text)

    # -- who ----------------------------------------------------------------------------------------------------------

    def _victim(self) -> Member:
        """Whom the strike meets, by the role that it has now; among those that run."""
        running = [each for each in self._stage.core if each.is_running]
        wanted = self._by_role()
        chosen = [each for each in running if each.node_id in wanted]
        return self._rng.choice(chosen or running or self._stage.core)

    def _by_role(self) -> set[int]:
        parts = self._stage.known_partitions()
        match self._whom:
            case Whom.LEADER | Whom.FOLLOWER if parts:
                part = self._rng.choice(parts)
                followers = set(part.replica_nodes) - {part.leader_id}
                return {part.leader_id} if self._whom is Whom.LEADER else followers
            case Whom.CONTROLLER:
                return {self._stage.controller()}
            case Whom.COORDINATOR:
                return {self._coordinator()}
            case _:
                return set()

    def _coordinator(self) -> int:
        for member in self._stage.core:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
            try:
                found = self._stage.ask(member, request, 4).coordinators[0]
            except OSError:
                continue
            return int(found.node_id)
        return -1

    def _others(self, member: Member) -> list[int]:
        return [each.node_id for each in self._stage.core if each is not member]

    # -- processes ----------------------------------------------------------------------------------------------------

    def _kill(self) -> Undo:
        victim = self._victim()
        self._tell(f"kill {victim.node_id}")
        victim.kill()
        return lambda: self._back(victim)

    def _back(self, *members: Member) -> None:
        """Start them; they may have to wait for others, so nobody waits for them."""
        for member in members:
            self._stage.start_node(member.node_id)
        self._tell(f"start {[each.node_id for each in members]}")

    def _kill_again(self) -> Undo:
        """One after another as soon as the former is back, three times."""
        for _ in range(3):
            victim = self._victim()
            self._tell(f"kill {victim.node_id}")
            victim.kill()
            self._back(victim)
            self._stage.until(victim.is_ready, timeout_s=_READY_S)
        return nothing

    def _kill_all(self) -> Undo:
        members = list(self._stage.core)
        self._rng.shuffle(members)
        self._tell("kill all")
        self._cluster.kill(*(each.node_id for each in members))
        return lambda: self._back(*members)

    def _pause(self) -> Undo:
        victim = self._victim()
        if not victim.is_running:
            return nothing
        self._tell(f"pause {victim.node_id}")
        victim.pause()
        return lambda: self._resume(victim)

    def _pause_all(self) -> Undo:
        running = [each for each in self._stage.core if each.is_running]
        self._tell("pause all")
        for each in running:
            each.pause()
        return lambda: self._resume(*running)

    def _resume(self, *members: Member) -> None:
        for member in members:
            if member.is_running:
                member.resume()
        self._tell(f"resume {[each.node_id for each in members]}")

    def _restart(self) -> Undo:
        """A clean stop, a start, and the next one when all is in sync again, as one would do it by hand."""
        for member in self._stage.core:
            if not member.is_running:
                continue
            self._tell(f"restart {member.node_id}")
            member.resume()
            member.terminate()
            try:
                member.wait_until_ended(_STOP_S)
            except subprocess.TimeoutExpired:
                self._tell(f"{member.node_id} does not stop")
                member.kill()
            self._back(member)
            self._stage.until(member.is_ready, timeout_s=_READY_S)
            self._stage.until(self._stage.is_in_sync, timeout_s=_READY_S)
        return nothing

    # -- the network --------------------------------------------------------------------------------------------------

    @property
    def _network(self) -> Network:
        assert self._stage.network is not None
        return self._stage.network

    def _isolate(self) -> Undo:
        """From the other nodes, and in half of the cases from the clients."""
        victim = self._victim()
        targets = self._others(victim) + ([CLIENTS] if self._rng.random() < 0.5 else [])
        self._tell(f"cut {victim.node_id} from {targets}")
        return self._cut_links([(victim.node_id, each) for each in targets], is_both_ways=True)

    def _cut(self) -> Undo:
        victim = self._victim()
        other = self._rng.choice(self._others(victim))
        self._tell(f"cut {victim.node_id} from {other}")
        return self._cut_links([(victim.node_id, other)], is_both_ways=True)

    def _cut_one_way(self) -> Undo:
        victim = self._victim()
        other = self._rng.choice(self._others(victim))
        link = (victim.node_id, other) if self._rng.random() < 0.5 else (other, victim.node_id)
        self._tell(f"cut what {link[0]} sends to {link[1]}")
        return self._cut_links([link], is_both_ways=False)

    def _cut_clients(self) -> Undo:
        victims = [self._victim().node_id] if self._rng.random() < 0.7 else [each.node_id for each in self._stage.core]
        self._tell(f"cut clients from {victims}")
        return self._cut_links([(each, CLIENTS) for each in victims], is_both_ways=True)

    def _cut_links(self, links: list[tuple[int, int]], *, is_both_ways: bool) -> Undo:
        directed = links + ([(target, source) for source, target in links] if is_both_ways else [])
        for source, target in directed:
            self._network.cut(source, target)

        def undo() -> None:
            for source, target in directed:
                self._network.join(source, target)
            self._tell("join")

        return undo

    def _slow(self) -> Undo:
        """One node's links, or all, in both directions or in one."""
        links: SlowLinks | None = self._stage.links
        assert links is not None
        quality = Quality(
            delay_ms=self._rng.choice((1.0, 20.0, 100.0)),
            jitter_ms=self._rng.choice((0.0, 10.0, 100.0)),
            loss=self._rng.choice((0.0, 0.01, 0.05, 0.2)),
        )
        victim = self._victim()
        pairs = [(victim.node_id, each) for each in self._others(victim)]
        if self._rng.random() < 0.5:
            pairs += [(target, source) for source, target in pairs]
        self._tell(f"slow {pairs}: {quality}")
        for source, target in pairs:
            links.slow(source, target, quality)

        def undo() -> None:
            links.heal()
            self._tell("quick links again")

        return undo

    # -- disks --------------------------------------------------------------------------------------------------------

    def _full_disk(self) -> Undo:
        victim = self._victim()
        disk = self._stage.disks[victim.node_id]
        self._tell(f"fill the disk of {victim.node_id}")
        disk.fill()

        def undo() -> None:
            disk.free()
            self._tell(f"room on the disk of {victim.node_id}; it {'runs' if victim.is_running else 'has ended'}")
            victim.stop()
            self._back(victim)

        return undo

    def _broken_disk(self) -> Undo:
        """What was not synced is lost with it, so the other copies must be whole: the next disk fails when all replicas are in sync again."""
        if self._stage.until(self._stage.is_in_sync, timeout_s=_COPIED_WITHIN_S) is None:
            self._tell("no disk fails: not all replicas are in sync")
            return nothing
        victim = self._victim()
        disk = self._stage.disks[victim.node_id]
        self._tell(f"the disk of {victim.node_id} fails")
        disk.shut_down()

        def undo() -> None:
            state = "runs" if victim.is_running else "has ended"
            victim.kill()
            disk.mend()
            self._tell(f"another try with the disk of {victim.node_id}, which {state}")
            self._back(victim)

        return undo

    # -- membership ---------------------------------------------------------------------------------------------------

    def _add_broker(self) -> Undo:
        """One more broker, which is given replicas."""
        if EXTRA_BROKER not in self._cluster.members:
            member = self._cluster.add(EXTRA_BROKER, ("broker",))
            if self._stage.network is not None:
                member.place = self._stage.network.place(EXTRA_BROKER)
        extra = self._cluster[EXTRA_BROKER]
        if not extra.is_running:
            self._tell(f"add broker {EXTRA_BROKER}")
            self._cluster.launch(EXTRA_BROKER)
            extra.wait_until_ready(_STARTED_S)
        return self._move_replicas()

    def _move_replicas(self) -> Undo:
        """Some partitions to three others of the brokers that there are."""
        brokers = [each.node_id for each in self._stage.core]
        if EXTRA_BROKER in self._cluster.members and self._cluster[EXTRA_BROKER].is_running:
            brokers.append(EXTRA_BROKER)
        targets: dict[int, tuple[int, ...] | None] = {}
        for part in self._stage.known_partitions():
            if self._rng.random() < 0.5:
                targets[part.partition_index] = tuple(self._rng.sample(brokers, 3))
        self._reassign(targets)
        return nothing

    def _reassign(self, targets: dict[int, tuple[int, ...] | None]) -> None:
        if not targets:
            return
        parts = tuple(ReassignablePartition(partition_index=number, replicas=each) for number, each in targets.items())
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name=TOPIC, partitions=parts),), timeout_ms=int(_ASK_S * 1_000)
        )
        self._tell(f"move {targets}: {self._answer(request, 0)}")

    def _remove_broker(self) -> Undo:
        """Its replicas go to the others, it is stopped, and the cluster forgets it."""
        if EXTRA_BROKER not in self._cluster.members or not self._cluster[EXTRA_BROKER].is_running:
            return nothing
        extra = self._cluster[EXTRA_BROKER]
        core = tuple(each.node_id for each in self._stage.core)

        def is_empty() -> bool:
            return all(EXTRA_BROKER not in each.replica_nodes for each in self._stage.known_partitions())

        end = time.monotonic() + _READY_S
        while not is_empty() and time.monotonic() < end:
            there = [each for each in self._stage.known_partitions() if EXTRA_BROKER in each.replica_nodes]
            self._reassign({each.partition_index: core[:3] for each in there})
            self._stage.until(is_empty, timeout_s=10)
        self._tell(f"stop and unregister broker {EXTRA_BROKER}")
        extra.stop()
        self._answer(UnregisterBrokerRequest(broker_id=EXTRA_BROKER), 0)
        return nothing

    def _elect_preferred(self) -> Undo:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=int(_ASK_S * 1_000))
        self._tell(f"elect preferred leaders: {self._answer(request, 2)}")
        return nothing

    def _answer(self, request: object, version: int) -> str:
        """The error of the first node that answers; for whoever reads the history."""
        for member in self._stage.core:
            try:
                answer = self._stage.ask(member, request, version, timeout_s=_ASK_S + 1)
            except OSError:
                continue
            return f"error {answer.error_code}"
        return "nobody answers"
