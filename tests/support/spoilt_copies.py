"""A healthy cluster with three copies of each partition, to be spoilt behind its back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.sim.checkers import all_checkers
from headrace.sim.checkers.group import Group
from headrace.sim.cluster import SimCluster
from headrace.sim.plan import draw_plan

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage, PartitionRegistration

G = TypeVar("G", bound=Group)

OPTIONS = {
    "faults": "none",
    "seconds": 2,
    "controllers": 1,
    "brokers": 3,
    "copies": 3,
    "producers": 1,
    "consumers": 1,
    "hostile_peers": 0,
}


class Copies(Generic[G]):
    """A run to its end with three copies, and one of its checkers; the partition with the most records is looked at."""

    def __init__(self, kind: type[G]) -> None:
        self.cluster = SimCluster(draw_plan("records", 1, OPTIONS), checkers=all_checkers())
        self.cluster.run()
        (watcher,) = self.cluster._checkers
        self.group: G = next(each for each in watcher.groups if isinstance(each, kind))  # type: ignore[attr-defined]
        promises = self.group.scene.promises
        self.place = max(promises, key=lambda place: promises[place].end)
        self.promise = promises[self.place]

    @property
    def image(self) -> MetadataImage:
        """What is committed last."""
        return self.group.ghost.committed.replayed[-1].image

    @property
    def partition(self) -> PartitionRegistration:
        """The partition as that has it."""
        return self.image.topics.by_name[self.place[0]].partitions[self.place[1]]

    def hosted(self, node_id: int) -> Any:
        """The partition at a broker."""
        machine = self.cluster.nodes[node_id].machine
        assert machine is not None
        assert machine.broker is not None
        hosted = machine.broker.partitions.get(*self.place)
        assert hosted is not None
        return hosted

    def log(self, node_id: int) -> Any:
        """The copy of a broker."""
        return self.hosted(node_id).log

    def leader(self) -> int:
        """Who leads."""
        return self.partition.leader

    def follower(self) -> int:
        """Somebody else."""
        return next(each for each in (101, 102, 103) if each != self.leader())
