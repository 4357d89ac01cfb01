"""Reassignments that lead to what somebody asked for, or back, with no replica left over.  CL3

A broker that is decommissioned takes its replicas with it, here and in what is asked for; unless that is forced only where somebody else has all that
was acknowledged (C7).

Judged on the committed log and on what clients asked, not on what a partition says of itself: where a partition came from is remembered
here from the moment at which its move began. What an earlier target was to add goes when the target changes, unless nobody else is in sync:
then it stays until the new one is (nothing is lost, C7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.image import LEADER_RECOVERING
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import CallStarted
from headrace.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.metadata.image import PartitionRegistration
    from headrace.sim.checkers.committed_log import Replayed

Place = tuple[str, int]


class Reassignments(Group):
    """Moves of replicas, from their beginning to their end."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._targets: dict[Place, set[tuple[int, ...]]] = {}
        """Everything that anybody ever asked for."""
        self._cancelled: set[Place] = set()
        self._origins: dict[tuple[Uuid, int], frozenset[int]] = {}
        """Partitions that move -> their replicas before."""
        self._leavers: dict[int, bool] = {}
        """Brokers that somebody asked to decommission -> whether by force."""

    def called(self, event: object) -> None:
        """Somebody asks for a move, or for the end of one."""
        request = event.request if isinstance(event, CallStarted) else None
        if isinstance(request, UnregisterBrokerRequest) and request.remove_from_assignments:
            self._leavers[request.broker_id] = request.force or self._leavers.get(request.broker_id, False)
        if not isinstance(request, AlterPartitionReassignmentsRequest):
            return
        for topic in request.topics:
            for asked in topic.partitions:
                place = (topic.name, asked.partition_index)
                if asked.replicas is None:
                    self._cancelled.add(place)
                else:
                    self._targets.setdefault(place, set()).add(asked.replicas)

    def committed(self, replayed: Replayed) -> None:
        """Partitions whose replicas changed, or that move."""
        if replayed.delta is None:
            return
        for topic_id, change in replayed.delta.changed_topics.items():
            for number, (before, after) in change.partitions.items():
                if before is None or _assignment(before) == _assignment(after):
                    continue
                name, key = (change.after.name, number), (topic_id, number)
                wrong = (self._goes_on if _is_moving(after) else self._ends)(name, key, before, after)
                if wrong and not self._is_left(name, key, before, after):
                    raise self.broken("CL3", f"{name[0]}-{number} {wrong}")

    def _is_left(
        self, name: Place, key: tuple[Uuid, int], before: PartitionRegistration, after: PartitionRegistration
    ) -> bool:
        """Whether a broker has left for good; then it is gone from what was there, and from what was asked for."""
        origin = self._origins.get(key, frozenset(before.replicas))
        for broker_id in set(self._leavers) & set(before.replicas) - set(after.replicas):
            if not self._explains(broker_id, origin, before, after):
                continue
            has_all = {*before.isr, *before.eligible_leader_replicas} - {broker_id}
            if not has_all and not self._leavers[broker_id]:
                raise self.broken("C7", f"{broker_id} left {name[0]}-{name[1]}, and nobody else was in sync")
            self._origins.pop(key, None)
            if _is_moving(after):
                self._origins[key] = origin - {broker_id}
            wanted = self._targets.setdefault(name, set())
            wanted |= {_without(target, broker_id) for target in wanted}
            self.hit("replica gone with its broker")
            return True
        return False

    def _explains(
        self, broker_id: int, origin: frozenset[int], before: PartitionRegistration, after: PartitionRegistration
    ) -> bool:
        """Whether a partition became what it is when this broker left."""
        if broker_id in before.adding_replicas and origin & set(before.isr):  # it never was needed: all stays as it was
            return frozenset(after.replicas) == origin and not _is_moving(after)
        rest = _without(before.replicas, broker_id)
        target = tuple(each for each in rest if each not in before.removing_replicas)
        if _is_moving(after):
            parts = (rest, _without(before.adding_replicas, broker_id), _without(before.removing_replicas, broker_id))
            return _assignment(after) == parts
        if after.replicas == rest and (target == rest or not target):
            return True
        if after.replicas == target:
            return origin == {broker_id} or set(after.replicas) - origin <= set(after.isr)
        if broker_id in before.adding_replicas and frozenset(after.replicas) == origin:
            return True
        is_emptied = not rest and len(after.replicas) == 1 and after.leader_recovery_state == LEADER_RECOVERING
        return is_emptied and self._leavers[broker_id]

    def _goes_on(
        self, name: Place, key: tuple[Uuid, int], before: PartitionRegistration, after: PartitionRegistration
    ) -> str:
        """What is wrong with a move that begins or changes, where no broker has left for good."""
        origin = self._origins.get(key, frozenset(before.replicas))
        target = tuple(each for each in after.replicas if each not in after.removing_replicas)
        if target not in self._targets.get(name, ()):
            return f"moves to {target}, and nobody asked for that"
        back = frozenset(after.replicas) - frozenset(after.adding_replicas)
        if back != origin:
            left_over = set(before.adding_replicas) - set(target)
            if back - origin != left_over or origin - back or not set(before.isr) <= left_over:
                return f"came from {sorted(origin)}, and would go back to {sorted(back)}"
            self.hit("reassignment changed while nobody else was in sync")
        self._origins[key] = back
        self.hit("reassignment changed" if _is_moving(before) else "reassignment begun")
        return ""

    def _ends(
        self, name: Place, key: tuple[Uuid, int], before: PartitionRegistration, after: PartitionRegistration
    ) -> str:
        """What is wrong with a move that ends, where no broker has left for good."""
        replicas, origin = after.replicas, self._origins.get(key, frozenset(before.replicas))
        if replicas in self._targets.get(name, ()):
            late = sorted(each for each in replicas if each not in origin and each not in after.isr)
            is_lossy = after.isr == (after.leader,) and after.leader_recovery_state == LEADER_RECOVERING
            if late and not is_lossy:  # the change that ends it may also be one that leaves the new leader alone
                return f"has moved to {replicas}, and {late} are not in sync"
            self.hit("reassignment completed" if _is_moving(before) else "reassignment completed at once")
        elif frozenset(replicas) == origin and name in self._cancelled and _is_moving(before):
            self.hit("reassignment cancelled")
        else:
            return f"moved from {sorted(origin)} and ended as {replicas}, and nobody asked for that"
        self._origins.pop(key, None)
        return ""


def _assignment(partition: PartitionRegistration) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def _without(replicas: tuple[int, ...], broker_id: int) -> tuple[int, ...]:
    return tuple(each for each in replicas if each != broker_id)


def _is_moving(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)
