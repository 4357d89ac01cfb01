"""After the faults have stopped: a leader, responses for all, all together.  RL1 RL2 RL3 CL1 CL2 CL3 C11"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.image import LEADER_RECOVERED
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.groups import is_of_group
from headrace.sim.checkers.supported_features import RESERVED_DIRECTORIES
from headrace.sim.observation import CallEnded, CallStarted

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.committed_log import Replayed
    from headrace.sim.observation import ClusterView, NodeView


class Liveness(Group):
    """What must have become true within the bound that the run's healing phase waited."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._waiting: dict[int, CallStarted] = {}
        self._ends: list[tuple[int, int]] = []
        """(virtual time in us, committed end) of each commit."""

    def called(self, event: object) -> None:
        """Every call ends (RL2); members of groups go on calling, and wait for each other: GL1 is about them."""
        if isinstance(event, CallStarted) and not is_of_group(event.request):
            self._waiting[event.call_id] = event
        elif isinstance(event, CallEnded):
            self._waiting.pop(event.call_id, None)

    def committed(self, replayed: Replayed) -> None:
        """Remember when."""
        self._ends.append((self.scene.step.at_us, replayed.batch.last_offset + 1))

    def _settled_end(self, cluster: ClusterView) -> int:
        """What was committed two fetch timeouts ago: everybody must have heard of it by now."""
        before = cluster.now_us - 2_000 * cluster.fetch_timeout_ms
        return next((end for at, end in reversed(self._ends) if at <= before), 0)

    def at_end(self, cluster: ClusterView) -> None:
        """All of them, in the order in which one depends on the other."""
        behind = cluster.left_behind
        nodes = [each for each in cluster.nodes.values() if each.is_up and each.raft and each.node_id not in behind]
        leader = self._one_leader(nodes)
        self._answered()
        self._together(nodes, leader, self._settled_end(cluster))
        self._same_metadata(nodes, self._settled_end(cluster))
        image = self.ghost.committed.image_at(self.ghost.committed.end)
        if image is not None and any(node.image is not None and node.controller is None for node in nodes):
            self._leaders(image)
            self._reassignments(image)

    def settled(self, cluster: ClusterView) -> None:
        """Brokers that lead have brought every partition to where it is to be (CL2, CL3, C11)."""
        image = self.ghost.committed.image_at(self.ghost.committed.end)
        if image is None:
            raise self.broken("RL1", "what is committed last is no whole batch")
        self._leaders(image)
        self._reassignments(image)
        self._recovered(image)

    def _one_leader(self, nodes: list[NodeView]) -> NodeView:
        """All know one leader (RL1)."""
        known = {(node.raft.leader_id, node.raft.epoch) for node in nodes if node.raft is not None}
        if len(known) != 1 or next(iter(known))[0] < 0:
            said = {node.node_id: (node.raft.leader_id, node.raft.epoch) for node in nodes if node.raft is not None}
            raise self.broken("RL1", f"who leads, and in which epoch: {said}")
        leader_id = next(iter(known))[0]
        leader = next((node for node in nodes if node.node_id == leader_id), None)
        if leader is None or leader.raft is None or leader.raft.leader_id != leader.node_id:
            raise self.broken("RL1", f"all say that node {leader_id} leads, it does not")
        if leader.controller is None or not leader.controller.is_active:
            raise self.broken("RL2", f"node {leader_id} leads, and its controller takes no requests")
        return leader

    def _answered(self) -> None:
        """Every append has its answer (RL2)."""
        if self._waiting:
            first = min(self._waiting)
            raise self.broken(
                "RL2", f"{len(self._waiting)} calls were never answered, the first is {self._waiting[first]}"
            )

    def _together(self, nodes: list[NodeView], leader: NodeView, settled: int) -> None:
        """All nodes are where the leader is (RL3)."""
        assert leader.raft is not None
        for node in nodes:
            assert node.raft is not None
            if node.raft.high_watermark < settled:
                raise self.broken(
                    "RL3",
                    f"node {node.node_id} knows {node.raft.high_watermark} as committed, "
                    f"its leader {leader.raft.high_watermark}, and {settled} for long",
                )

    def _same_metadata(self, nodes: list[NodeView], settled: int) -> None:
        """That each image is the true one at its offset is C2 (CL1)."""
        for node in nodes:
            image = node.image if node.machine is None else node.machine.image
            if image is None:
                continue
            end = image.provenance.last_contained_offset + 1
            truth = self.ghost.committed.image_at(settled)
            wanted = 0 if truth is None else truth.provenance.last_contained_offset + 1
            if end < wanted:
                raise self.broken(
                    "CL1", f"the metadata of node {node.node_id} ends at {end}, {wanted} is known for long"
                )

    def _leaders(self, image: MetadataImage) -> None:
        """Every partition that can have a leader has one (CL2)."""
        for topic in image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader < 0 and any(may_lead(image, partition, each) for each in eligible(partition)):
                    raise self.broken("CL2", f"{topic.name}-{number} has no leader: {partition}")

    def _recovered(self, image: MetadataImage) -> None:
        """Whoever leads after an unclean election says when it is over it (C11)."""
        for topic in image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader >= 0 and partition.leader_recovery_state != LEADER_RECOVERED:
                    raise self.broken("C11", f"{topic.name}-{number} is still marked: {partition}")

    def _reassignments(self, image: MetadataImage) -> None:
        """No reassignment is left, nor a replica too many (CL3); but one without a leader, or whose target holds a broker that does not live any more: what it had on disk may be rotten."""
        for topic in image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                target = [each for each in partition.replicas if each not in partition.removing_replicas]
                may_end = partition.leader >= 0 and all(may_lead(image, partition, each) for each in target)
                if may_end and (partition.adding_replicas or partition.removing_replicas):
                    raise self.broken("CL3", f"{topic.name}-{number} is still being moved: {partition}")


def may_lead(image: MetadataImage, partition: PartitionRegistration, broker_id: int) -> bool:
    """A live broker whose directory with the replica is not known to be offline (KIP-858)."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or not broker.is_active:
        return False
    directory = partition.directory_of(broker_id)
    is_placed = int.from_bytes(directory, "big") >= RESERVED_DIRECTORIES
    return not broker.log_dirs or not is_placed or directory in broker.log_dirs


def eligible(partition: PartitionRegistration) -> tuple[int, ...]:
    """The replicas that may lead without loss."""
    return (*partition.isr, *partition.eligible_leader_replicas)
