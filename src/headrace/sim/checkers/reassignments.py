"""Reassignments that lead to what somebody asked for, or back, with no replica left over.  CL3

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

    def called(self, event: object) -> None:
        """Somebody asks for a move, or for the end of one."""
        if not isinstance(event, CallStarted) or not isinstance(event.request, AlterPartitionReassignmentsRequest):
            return
        for topic in event.request.topics:
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
                if _is_moving(after):
                    self._goes_on(name, key, before, after)
                else:
                    self._ends(name, before, after, self._origins.pop(key, frozenset(before.replicas)))

    def _goes_on(
        self, name: Place, key: tuple[Uuid, int], before: PartitionRegistration, after: PartitionRegistration
    ) -> None:
        where = f"{name[0]}-{name[1]}"
        self.hit("reassignment changed" if _is_moving(before) else "reassignment begun")
        origin = self._origins.setdefault(key, frozenset(before.replicas))
        target = tuple(each for each in after.replicas if each not in after.removing_replicas)
        if target not in self._targets.get(name, ()):
            raise self.broken("CL3", f"{where} moves to {target}, and nobody asked for that")
        back = frozenset(after.replicas) - frozenset(after.adding_replicas)
        if back == origin:
            return
        left_over = set(before.adding_replicas) - set(target)
        if back - origin != left_over or origin - back or not set(before.isr) <= left_over:
            raise self.broken("CL3", f"{where} came from {sorted(origin)}, and would go back to {sorted(back)}")
        self._origins[key] = back
        self.hit("reassignment changed while nobody else was in sync")

    def _ends(
        self, name: Place, before: PartitionRegistration, after: PartitionRegistration, origin: frozenset[int]
    ) -> None:
        where, replicas = f"{name[0]}-{name[1]}", after.replicas
        if replicas in self._targets.get(name, ()):
            late = sorted(each for each in replicas if each not in origin and each not in after.isr)
            is_lossy = after.isr == (after.leader,) and after.leader_recovery_state == LEADER_RECOVERING
            if late and not is_lossy:  # the change that ends it may also be one that leaves the new leader alone
                raise self.broken("CL3", f"{where} has moved to {replicas}, and {late} are not in sync")
            self.hit("reassignment completed" if _is_moving(before) else "reassignment completed at once")
        elif frozenset(replicas) == origin and name in self._cancelled and _is_moving(before):
            self.hit("reassignment cancelled")
        else:
            raise self.broken(
                "CL3", f"{where} moved from {sorted(origin)} and ended as {replicas}, and nobody asked for that"
            )


def _assignment(partition: PartitionRegistration) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def _is_moving(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)
