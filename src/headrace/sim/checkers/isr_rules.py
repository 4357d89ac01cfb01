"""A leader's own picture of its partition against what is committed and what lies in the copies.  P5 P6 P8 P10 P18 E4

The controller's ISR and the leader's are compared when either changes; what a leader calls committed is compared with the logs of those who are in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.sim.checkers.eligible_replicas import needed_in_sync
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.promises import Place, Promise, hosted_at, registered_at, topic_id_at
from headrace.sim.checkers.records import asked_partition
from headrace.sim.observation import CallEnded, CallStarted, ImagePublished
from headrace.sim.record_clients import is_copied
from headrace.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.committed_log import Replayed
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView

_ALL = -1


class IsrRules(Group):
    """Of partitions that clients or groups use, while the node that leads them runs."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._begun: dict[int, tuple[Place, int]] = {}

    def after_changes(self) -> Mapping[type, Handler]:
        """New metadata at a broker."""
        return {ImagePublished: self._published}

    def _published(self, life: Life, change: ImagePublished) -> None:
        if self.scene.promises and self.scene.cluster is not None:
            for place, promise, leader in self._led(self.scene.cluster, self._image()):
                if leader.broker_id == life.node_id:
                    self._judge(place, promise, leader)

    def _image(self) -> MetadataImage:
        return self.ghost.committed.replayed[-1].image

    def _led(self, cluster: ClusterView, image: MetadataImage) -> Iterator[tuple[Place, Promise, Any]]:
        """Each partition whose leader runs and knows that it leads in this epoch."""
        for place, promise in self.scene.promises.items():
            partition = registered_at(image, place)
            if partition is None or partition.leader < 0:
                continue
            hosted = hosted_at(cluster, partition.leader, place, topic_id_at(image, place))
            leader = None if hosted is None else hosted.leader
            if leader is not None and leader.leader_epoch == partition.leader_epoch:
                yield place, promise, leader

    def committed(self, replayed: Replayed) -> None:
        """An ISR is another one: its leader counts with all of it (P5), and who came has what it must have (P8)."""
        cluster = self.scene.cluster
        if cluster is None or replayed.delta is None or not self.scene.promises:
            return
        changed = replayed.delta.changed_topics
        for place, promise, leader in self._led(cluster, replayed.image):
            topic = replayed.image.topics.by_name[place[0]]
            if topic.id not in changed:
                continue
            partition = topic.partitions[place[1]]
            self._superset(place, partition, leader)
            for member in partition.isr:
                if member not in leader.isr and member not in promise.wounds:
                    self._joined(place, leader, member)

    def _superset(self, place: Place, partition: PartitionRegistration, leader: Any) -> None:
        counted = maximal_isr(leader)
        is_ahead = leader.partition_epoch > partition.partition_epoch  # it has read on, past this ISR
        if not is_ahead and not set(partition.isr) <= set(counted):
            raise self.broken(
                "P5",
                f"{place} has {partition.isr} in sync, its leader counts {counted}",
                self.ghost.lives[leader.broker_id],
            )

    def _joined(self, place: Place, leader: Any, member: int) -> None:
        log = self._log(place, member)
        if log is not None and log.log_end_offset < leader.epoch_start:
            raise self.broken(
                "P8",
                f"{place}: broker {member} is in sync at {log.log_end_offset}, the leader's epoch begins at {leader.epoch_start}",
                self.ghost.lives[member],
            )
        self.hit("replica joined an isr")

    def _log(self, place: Place, node_id: int) -> Any:
        """The log of a copy that is loaded."""
        assert self.scene.cluster is not None, "a copy belongs to a cluster"
        hosted = hosted_at(self.scene.cluster, node_id, place, topic_id_at(self._image(), place))
        return None if hosted is None else hosted.log

    def now_and_then(self, cluster: ClusterView) -> None:
        """Each leader as it is now."""
        for place, promise, leader in self._led(cluster, self._image()) if self.scene.promises else ():
            self._judge(place, promise, leader)

    def _judge(self, place: Place, promise: Promise, leader: Any) -> None:
        log, life = leader.log, self.ghost.lives[leader.broker_id]
        at = log.high_watermark
        if not log.log_start_offset <= at <= log.log_end_offset:
            ends = (log.log_start_offset, log.log_end_offset)
            raise self.broken(
                "P18" if at < ends[0] else "P6", f"{place} has {ends}, and a high watermark of {at}", life
            )
        for entry in log.producers:
            if entry.last_offset >= log.log_end_offset:
                raise self.broken(
                    "E4", f"{place} ends at {log.log_end_offset}, a producer's batch at {entry.last_offset}", life
                )
        if promise.is_void:
            return
        counted = maximal_isr(leader)
        for member in counted:
            copy = None if member in promise.wounds else self._log(place, member)
            if copy is not None and copy.log_end_offset < at:
                raise self.broken(
                    "P6",
                    f"{place} has a high watermark of {at}, broker {member}, in sync, ends at {copy.log_end_offset}",
                    life,
                    self.ghost.lives[member],
                )
        self._held_back(place, leader, life)

    def _held_back(self, place: Place, leader: Any, life: Life) -> None:
        """With enough in sync it is where all who count are known to be, and who keeps up and may join; that it rests with too few is `eligible_replicas.Commitment`."""
        log, at = leader.log, leader.log.high_watermark
        if len(leader.isr) < leader.effective_min_isr:
            self.hit("isr below its minimum")
            return
        known = [log.acknowledged_end_offset]
        known += [
            leader.followers[member].log_end_offset for member in maximal_isr(leader) if member in leader.followers
        ]
        if leader.awaited:
            self.hit("commit waits for a follower that keeps up")
            known += [each.log_end_offset for each in leader.awaited.values() if each.has_caught_up]
        if min(known) > at:
            raise self.broken(
                "P6", f"{place} has a high watermark of {at}, all in sync are known to have {min(known)}", life
            )

    def called(self, event: object) -> None:
        """What is acknowledged with acks=all had enough copies (P10)."""
        if isinstance(event, CallStarted) and isinstance(event.request, ProduceRequest):
            self._produce(event)
        elif isinstance(event, CallEnded) and event.call_id in self._begun:
            place, epoch = self._begun.pop(event.call_id)
            response = event.response
            partition = registered_at(self._image(), place)
            if partition is None or partition.partition_epoch != epoch or not isinstance(response, ProduceResponse):
                return
            if response.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
                raise self.broken("P10", f"acks=all is acknowledged for {place}, in sync is {partition.isr}")

    def _produce(self, event: CallStarted) -> None:
        request = event.request
        assert isinstance(request, ProduceRequest), "a produce is looked at"
        image = self._image()
        name, _ = place = asked_partition(request, self.ghost)
        if request.acks != _ALL or not is_copied(name):
            return
        partition = registered_at(image, place)
        if partition is None or len(partition.isr) >= needed_in_sync(image, name, partition):
            return
        if self.scene.cluster is not None and self._knows(self.scene.cluster, place, partition):
            self._begun[event.call_id] = (place, partition.partition_epoch)

    def _knows(self, cluster: ClusterView, place: Place, partition: PartitionRegistration) -> bool:
        """The leader has heard of the ISR; while it has not, it counts with who was in it, and those do acknowledge."""
        hosted = hosted_at(cluster, partition.leader, place, topic_id_at(self._image(), place))
        leader = None if hosted is None else hosted.leader
        return leader is not None and leader.partition_epoch >= partition.partition_epoch


def maximal_isr(leader: Any) -> tuple[int, ...]:
    """Those in sync, and those who are proposed."""
    proposed = () if leader.proposal is None else tuple(member for member, _ in leader.proposal.isr)
    return tuple(dict.fromkeys((*leader.isr, *proposed)))
