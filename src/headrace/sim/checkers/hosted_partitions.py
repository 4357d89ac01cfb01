"""The replicas that a broker hosts are just those that its metadata gives it, each in its role.  C23"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.node.lifecycle import BrokerState
from headrace.sim.checkers.eligible_replicas import MIN_ISR, min_isr
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.metadata_changes import touched_between
from headrace.sim.observation import ImagePublished, RequestSent
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView, NodeView


class HostedPartitions(Group):
    """What a broker that asks to serve, or serves, hosts: all of it when it first asks, then what each new image changes."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._checked: dict[int, tuple[Life, int]] = {}
        """Node -> the process, and the end of the metadata that what it hosts was compared with."""

    def after_changes(self) -> Mapping[type, Handler]:
        """A heartbeat that asks to be unfenced, and new metadata."""
        return {RequestSent: self._sent, ImagePublished: self._published}

    def now_and_then(self, cluster: ClusterView) -> None:
        """All that every broker hosts that serves."""
        for node in cluster.nodes.values():
            known = self._checked.get(node.node_id)
            if _is_behind(node):
                continue
            if known is not None and node.is_up and node.run == known[0].run and node.machine is not None:
                self._check_all(known[0], node)

    def _sent(self, life: Life, change: RequestSent) -> None:
        request = change.request
        if self.scene.step.is_cut_short:
            return
        is_ready = isinstance(request, BrokerHeartbeatRequest) and not request.want_fence
        known = self._checked.get(life.node_id)
        if is_ready and (known is None or known[0] is not life) and not _is_behind(self.scene.step.node):
            self._check_all(life, self.scene.step.node)

    def _published(self, life: Life, change: ImagePublished) -> None:
        node = self.scene.step.node
        if self.scene.step.is_cut_short or _is_behind(node):
            return
        known = self._checked.get(life.node_id)
        if known is None or known[0] is not life:
            lifecycle = None if node.machine is None else node.machine.lifecycle
            if lifecycle is not None and lifecycle.state is BrokerState.RUNNING:
                self._check_all(life, node)
            return
        end = change.image.provenance.last_contained_offset + 1
        places = [key.name for key in touched_between(self.ghost.committed, known[1], end) if key.kind == "partition"]
        self._check(life, node, change.image, places)
        self._checked[life.node_id] = (life, end)

    def _check_all(self, life: Life, node: NodeView) -> None:
        assert node.machine is not None, "a broker that asks to serve is up"
        image = node.machine.image
        places = [(topic.id, number) for topic in image.topics.by_id.values() for number in topic.partitions]
        self._check(life, node, image, places)
        broker: Any = node.machine.broker
        for hosted in broker.partitions:
            if image.topics.partition_by_id(hosted.topic_id, hosted.partition) is None:
                raise self.broken("C23", f"broker {life.node_id} hosts {hosted}, which is gone", life)
        self._checked[life.node_id] = (life, image.provenance.last_contained_offset + 1)
        self.hit("broker that serves compared with its metadata")

    def _check(self, life: Life, node: NodeView, image: MetadataImage, places: Iterable[tuple[Uuid, int]]) -> None:
        broker: Any = None if node.machine is None else node.machine.broker
        if broker is None:
            return
        for topic_id, number in places:
            topic = image.topics.by_id.get(topic_id)
            wanted = None if topic is None else topic.partitions.get(number)
            hosted = broker.partitions.by_id.get((topic_id, number))
            if wanted is None or life.node_id not in wanted.replicas:
                wrong = "" if hosted is None else "is hosted, and no replica of it is to be here"
            else:
                assert topic is not None
                wrong = _role_fault(life.node_id, hosted, wanted, min_isr(image, topic.name))
            if wrong:
                name = topic_id if topic is None else topic.name
                raise self.broken("C23", f"at broker {life.node_id} {name}-{number} {wrong}", life)


def _is_behind(node: NodeView) -> bool:
    """Some of a long delta is still to be done, in the next turns; it is compared with the one that follows."""
    broker: Any = None if node.machine is None else node.machine.broker
    return broker is not None and bool(broker.due_roles)


def _role_fault(node_id: int, hosted: Any, wanted: PartitionRegistration, min_insync: int) -> str:
    """What is wrong with the replica here; "" when nothing is. A directory that is offline leads nothing."""
    if hosted is None:
        return f"is not hosted: {wanted}"
    if (hosted.leader_id, hosted.leader_epoch) != (wanted.leader, wanted.leader_epoch):
        return f"follows {hosted.leader_id} in epoch {hosted.leader_epoch}, the metadata say {wanted}"
    leader = hosted.leader
    if wanted.leader != node_id:
        return "" if leader is None else f"is led here, the metadata say {wanted}"
    if hosted.log is None:
        return ""
    if leader is None or leader.leader_epoch != wanted.leader_epoch:
        return f"is not led here, the metadata say {wanted}"
    if leader.partition_epoch < wanted.partition_epoch or tuple(leader.replicas) != wanted.replicas:
        return f"is led on older terms than {wanted}"
    if leader.min_insync_replicas != min_insync:
        return f"is led with {MIN_ISR}={leader.min_insync_replicas}, it is set to {min_insync}"
    return ""
