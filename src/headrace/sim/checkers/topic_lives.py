"""How much of a topic's whole life a run has seen: made, written, moved, bereft of a copy's disk, whole again, deleted.

It judges nothing: that records stay while the topic lives, and that none of them is in a later topic of the same name, is `copied_records`'.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import CallEnded, Crash, StepKind
from headrace.sim.record_clients import is_copied
from headrace.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.committed_log import Replayed
    from headrace.sim.checkers.ghost import Life


class _Stage(Enum):
    """What happens between a topic's making and its deletion."""

    WRITTEN = "records were acknowledged"
    MOVED = "replicas moved"
    BEREFT = "a replica lost its disk"
    RECOVERED = "that replica came back into sync"


_WHOLE: Final = frozenset(_Stage)


class TopicLives(Group):
    """Of topics with several copies."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._seen: dict[Uuid, set[_Stage]] = {}
        self._bereft: dict[tuple[Uuid, int, int], int] = {}
        """(topic, partition, broker) -> the broker epoch in which its disk went."""

    def called(self, event: object) -> None:
        """Records are acknowledged: the topic is known by its id."""
        if not isinstance(event, CallEnded) or not isinstance(event.request, ProduceRequest):
            return
        topic_id = event.request.topic_data[0].topic_id
        if isinstance(event.response, ProduceResponse) and topic_id in self._seen:
            code = event.response.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                self._seen[topic_id].add(_Stage.WRITTEN)

    def ended(self, life: Life, kind: StepKind) -> None:
        """A disk is lost with all that was on it."""
        crash = self.scene.step.event
        if kind is not StepKind.CRASHED or not isinstance(crash, Crash) or not crash.is_disk_lost or not self._seen:
            return
        image = self.ghost.committed.replayed[-1].image
        epoch = _broker_epoch(image, life.node_id)
        for topic_id, stages in self._seen.items():
            for number, partition in image.topics.by_id[topic_id].partitions.items():
                if _Stage.WRITTEN in stages and life.node_id in partition.isr:
                    stages.add(_Stage.BEREFT)
                    self._bereft[topic_id, number, life.node_id] = epoch

    def committed(self, replayed: Replayed) -> None:
        """Topics come, change and go."""
        if replayed.delta is None:
            return
        for topic_id, change in replayed.delta.changed_topics.items():
            if not is_copied(change.after.name):
                continue
            stages = self._seen.setdefault(topic_id, set())
            for number, (before, after) in change.partitions.items():
                if before is not None and _has_moved(before, after):
                    stages.add(_Stage.MOVED)
                self._recovered(replayed.image, topic_id, number, after)
        for topic_id in replayed.delta.deleted_topics:
            if self._seen.pop(topic_id, set()) >= _WHOLE:
                self.hit("whole life of a topic")
            self._bereft = {key: epoch for key, epoch in self._bereft.items() if key[0] != topic_id}

    def _recovered(self, image: MetadataImage, topic_id: Uuid, number: int, after: PartitionRegistration) -> None:
        """A later process of the bereft broker is in sync."""
        for member in after.isr:
            epoch = self._bereft.get((topic_id, number, member))
            if epoch is not None and _broker_epoch(image, member) > epoch:
                del self._bereft[topic_id, number, member]
                self._seen[topic_id].add(_Stage.RECOVERED)


def _broker_epoch(image: MetadataImage, broker_id: int) -> int:
    registered = image.cluster.brokers.get(broker_id)
    return -1 if registered is None else registered.broker_epoch


def _has_moved(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """A reassignment came to its end, and there are other replicas than before it."""
    return (
        bool(before.adding_replicas)
        and not after.adding_replicas
        and bool({*after.replicas} & {*before.adding_replicas})
    )
