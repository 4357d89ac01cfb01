"""What counts as enough replicas in sync, who may lead without loss, and what a leader commits with how many of them.  P5 P6"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.sim.checkers.group import Group, Scene

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.observation import ClusterView

MIN_ISR: Final = "min.insync.replicas"
_FEATURE: Final = "eligible.leader.replicas.version"


def has_elr(image: MetadataImage) -> bool:
    """The cluster keeps eligible leader replicas (KIP-966)."""
    return image.features.level(_FEATURE) > 0


def min_isr(image: MetadataImage, topic: str) -> int:
    """`min.insync.replicas` of a topic: its own, else that of all brokers; no run's file says another one."""
    own = image.configs.of_topic(topic).get(MIN_ISR)
    return int(own if own is not None else image.configs.of_all_brokers().get(MIN_ISR, "1"))


def needed_in_sync(image: MetadataImage, topic: str, partition: PartitionRegistration) -> int:
    """How many replicas in sync are enough; no more than there are."""
    return min(min_isr(image, topic), len(partition.replicas))


def elr_fault(image: MetadataImage, topic: str, partition: PartitionRegistration) -> str:
    """An ELR where enough replicas are in sync (C5); "" when all is well."""
    elr, needed = partition.eligible_leader_replicas, needed_in_sync(image, topic, partition)
    if has_elr(image) and elr and len(partition.isr) >= needed:
        return f"elr {elr} though {needed} of isr {partition.isr} are enough"
    return ""


class _Seen(NamedTuple):
    """A leader as it was: in which epochs, how many were in sync and how many had to be, and what was committed."""

    epochs: tuple[int, int]
    in_sync: int
    needed: int
    high_watermark: int


class Commitment(Group):
    """What leaders count: all that the controller has in the ISR (P5), and enough of them before more is committed (P6)."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._seen: dict[tuple[int, int, Uuid, int], _Seen] = {}

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every partition that is led where it is to be led."""
        image = self.ghost.committed.replayed[-1].image if self.ghost.committed.replayed else None
        before, self._seen = self._seen, {}
        for node in cluster.nodes.values():
            broker: Any = None if node.machine is None else node.machine.broker
            for hosted in () if broker is None or image is None else broker.partitions:
                leader = hosted.leader
                partition = None if image is None else image.topics.partition_by_id(hosted.topic_id, hosted.partition)
                if leader is None or partition is None:
                    continue
                life = self.ghost.lives[node.node_id]
                name = f"{hosted.topic}-{hosted.partition} at its leader {node.node_id}"
                self._superset(name, leader, partition, life)
                key = (node.node_id, node.run, hosted.topic_id, hosted.partition)
                self._watermark(name, key, leader, before.get(key), life)

    def _superset(self, name: str, leader: Any, partition: PartitionRegistration, life: Life) -> None:
        if leader.leader_epoch != partition.leader_epoch or partition.leader != life.node_id:
            return
        if leader.partition_epoch > partition.partition_epoch:  # it has read on, past this ISR
            return
        proposed = () if leader.proposal is None else tuple(member for member, _ in leader.proposal.isr)
        if not set(partition.isr) <= {*leader.isr, *proposed}:
            raise self.broken("P5", f"{name} counts {leader.isr} and {proposed}, the isr is {partition.isr}", life)

    def _watermark(
        self, name: str, key: tuple[int, int, Uuid, int], leader: Any, was: _Seen | None, life: Life
    ) -> None:
        needed = min(leader.min_insync_replicas, len(leader.replicas))
        seen = _Seen((leader.leader_epoch, leader.partition_epoch), len(leader.isr), needed, leader.log.high_watermark)
        self._seen[key] = seen
        if was is None or was.epochs != seen.epochs or max(seen.in_sync, was.in_sync) >= min(needed, was.needed):
            return
        self.hit("leader with too few in sync looked at twice")
        if seen.high_watermark > was.high_watermark:
            raise self.broken(
                "P6",
                f"{name} has {leader.isr} in sync of {needed} that are needed, and committed from {was.high_watermark} to {seen.high_watermark}",
                life,
            )
