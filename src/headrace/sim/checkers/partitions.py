"""Partitions, topics and ids that every committed change leaves in order.  C5 C6 C12 C13 C8 C17, judged on the committed log alone"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.ids import Uuid
from headrace.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionRegistration
from headrace.sim.checkers.eligible_replicas import elr_fault
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.settings_model import SettingsModel
from headrace.wire.metadata_records.frame import decode_record

if TYPE_CHECKING:
    from headrace.metadata.delta import TopicDelta
    from headrace.sim.checkers.committed_log import Replayed

_REGISTER_BROKER = 0


def shape_fault(partition: PartitionRegistration) -> str:
    """What is wrong with a partition by itself (C5); "" when nothing is."""
    replicas, isr = partition.replicas, partition.isr
    elr = partition.eligible_leader_replicas
    if not replicas or len(set(replicas)) != len(replicas):
        return f"replicas {replicas}"
    if len(set(isr)) != len(isr) or not set(isr) <= set(replicas):
        return f"isr {isr} of replicas {replicas}"
    if not set(elr) <= set(replicas) or set(elr) & set(isr):
        return f"elr {elr} beside isr {isr} of replicas {replicas}"
    if partition.leader != NO_LEADER and partition.leader not in isr:
        return f"leader {partition.leader} outside of isr {isr}"
    adding, removing = partition.adding_replicas, partition.removing_replicas
    if not set(adding) <= set(replicas) or not set(removing) <= set(replicas) or set(adding) & set(removing):
        return f"adding {adding} and removing {removing} of replicas {replicas}"
    return ""


def epochs_fault(before: PartitionRegistration, after: PartitionRegistration, *, records: int) -> str:
    """What is wrong with how the epochs moved over `records` changes (C6); "" when nothing is."""
    moved = after.partition_epoch - before.partition_epoch
    led = after.leader_epoch - before.leader_epoch
    if moved < 0 or led < 0:
        return f"an epoch fell: {before} -> {after}"
    if moved > records or led > moved:
        return f"an epoch rose by more than its changes: {before} -> {after}"
    if moved == 0 and before != after:
        return f"a change without a new partition epoch: {before} -> {after}"
    if before.leader != after.leader and led == 0:
        return f"another leader without a new leader epoch: {before} -> {after}"
    if led == 0 and not set(before.replicas) <= set(after.replicas):
        return f"replicas went without a new leader epoch: {before} -> {after}"
    return ""


class CommittedState(Group):
    """The sequence of true images, each compared with the one before, where it changed."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._image: MetadataImage = EMPTY_IMAGE
        self._gone_ids: dict[Uuid, str] = {}
        self._epochs: dict[int, int] = {}
        self._model = SettingsModel()

    def committed(self, replayed: Replayed) -> None:
        """One more batch."""
        records: list[Any] = [decode_record(each) for each in replayed.batch.records]
        self._broker_epochs(replayed, records)
        before, after = self._image, replayed.image
        self._image = after
        if replayed.delta is None:
            self._model.hold(records)
            return
        for topic_id, change in replayed.delta.changed_topics.items():
            self._topic(topic_id, change, records_in=self._model.held + len(records))
        for topic_id, gone in replayed.delta.deleted_topics.items():
            self._gone_ids[topic_id] = gone.name
            if topic_id in after.topics.by_id:
                raise self.broken("C12", f"topic {gone.name} is deleted and there")
        if after.next_producer_id < before.next_producer_id:
            raise self.broken(
                "C13", f"producer ids went back from {before.next_producer_id} to {after.next_producer_id}"
            )
        wrong = self._model.take(records, after)
        if wrong:
            raise self.broken("C17", f"at {replayed.batch.last_offset + 1}: {wrong}")

    def _broker_epochs(self, replayed: Replayed, records: list[Any]) -> None:
        for offset, record in enumerate(records, replayed.batch.base_offset):
            if record.SCHEMA.api_key != _REGISTER_BROKER:
                continue
            last = self._epochs.get(record.broker_id, -1)
            if record.broker_epoch == last:
                continue
            if record.broker_epoch != offset or record.broker_epoch < last:
                raise self.broken(
                    "C8", f"broker {record.broker_id} has epoch {record.broker_epoch}, its record has offset {offset}"
                )
            self._epochs[record.broker_id] = record.broker_epoch

    def _topic(self, topic_id: Uuid, change: TopicDelta, *, records_in: int) -> None:
        topic = change.after
        if topic_id in self._gone_ids:
            raise self.broken(
                "C12", f"the id of the deleted topic {self._gone_ids[topic_id]} came back as {topic.name}"
            )
        if change.before is not None and change.before.name != topic.name:
            raise self.broken("C12", f"topic {change.before.name} is called {topic.name} now")
        if self._image.topics.by_name.get(topic.name) is not self._image.topics.by_id.get(topic_id):
            raise self.broken("C12", f"the name {topic.name} and its id belong to two topics")
        count = len(topic.partitions)
        if change.before is not None and count < len(change.before.partitions):
            raise self.broken("C12", f"topic {topic.name} lost partitions")
        if any(number not in topic.partitions for number in range(count)):
            raise self.broken("C12", f"the partitions of {topic.name} are not numbered 0..{count - 1}")
        for number, (before, after) in change.partitions.items():
            wrong = shape_fault(after) or elr_fault(self._image, topic.name, after)
            if wrong:
                raise self.broken("C5", f"{topic.name}-{number}: {wrong}")
            if before is not None:
                wrong = epochs_fault(before, after, records=records_in)
                if wrong:
                    raise self.broken("C6", f"{topic.name}-{number}: {wrong}")
