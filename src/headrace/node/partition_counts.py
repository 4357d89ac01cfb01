"""Counts of topics, partitions and brokers, and of those that are not as they should be. For metrics.

Both counters follow the deltas of committed metadata, at the cost of each change (C3: nothing that is not committed is counted). A
node has them only while somebody wants metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.controller.partition_change import is_unclean_leader
from headrace.metadata.image import NO_LEADER, RESOURCE_BROKER, RESOURCE_TOPIC
from headrace.replication.isr import effective_min_isr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.core.ids import Uuid
    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import BrokerRegistration, PartitionRegistration, TopicImage

UNDER_REPLICATED: Final = 1
UNDER_MIN_ISR: Final = 2
AT_MIN_ISR: Final = 4
REASSIGNING: Final = 8


class ClusterCounts:
    """The gauges of `kafka.controller:type=KafkaController` and the elections of `ControllerStats`. Every controller keeps them."""

    def __init__(self) -> None:
        self.topics = 0
        """GlobalTopicCount."""
        self.partitions = 0
        """GlobalPartitionCount."""
        self.offline = 0
        """OfflinePartitionsCount: partitions without a leader."""
        self.not_preferred = 0
        """PreferredReplicaImbalanceCount: partitions that another replica than the first leads, or none."""
        self.active_brokers = 0
        """ActiveBrokerCount: those that are not fenced."""
        self.fenced_brokers = 0
        """FencedBrokerCount."""
        self.leaving_brokers = 0
        """ControlledShutdownBrokerCount: unfenced ones that are about to stop."""
        self.unclean_elections = 0
        """UncleanLeaderElectionsPerSec, since this process knows the cluster."""
        self.elr_elections = 0
        """ElectionFromEligibleLeaderReplicasPerSec."""

    def follow(self, delta: MetadataDelta) -> None:
        """Metadata were committed."""
        for topic in delta.deleted_topics.values():
            self.topics -= 1
            for partition in topic.partitions.values():
                self._count(partition, -1)
        for change in delta.changed_topics.values():
            if change.before is None:
                self.topics += 1
                for partition in change.after.partitions.values():
                    self._count(partition, 1)
                continue
            for before, after in change.partitions.values():
                if before is not None:
                    self._count(before, -1)
                    self._note_election(before, after)
                self._count(after, 1)
            for partition in change.removed.values():
                self._count(partition, -1)
        for broker_id in delta.changed_brokers:
            self._count_broker(delta.previous.cluster.brokers.get(broker_id), -1)
            self._count_broker(delta.image.cluster.brokers.get(broker_id), 1)

    def _count(self, partition: PartitionRegistration, by: int) -> None:
        self.partitions += by
        if partition.leader != partition.replicas[0]:
            self.not_preferred += by
            if partition.leader == NO_LEADER:
                self.offline += by

    def _note_election(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        """Whoever was not in sync loses records by leading (C11), but for an eligible leader replica (KIP-966)."""
        leader = after.leader
        if leader in (before.leader, NO_LEADER) or leader in before.isr:
            return
        if leader in before.eligible_leader_replicas:
            self.elr_elections += 1
        elif is_unclean_leader(leader, before, after):
            self.unclean_elections += 1

    def _count_broker(self, broker: BrokerRegistration | None, by: int) -> None:
        if broker is None:
            return
        if broker.fenced:
            self.fenced_brokers += by
        else:
            self.active_brokers += by
        if broker.in_controlled_shutdown:
            self.leaving_brokers += by


class BrokerCounts:
    """The gauges of `kafka.server:type=ReplicaManager` about the partitions that this broker leads.

    Told what the broker's publishers are told, after them: then the settings of topics are the new ones.
    """

    def __init__(self, broker_id: int, min_insync_replicas: Callable[[str], int]) -> None:
        """`min_insync_replicas` of a topic as it is set now."""
        self._broker_id = broker_id
        self._min_insync_replicas = min_insync_replicas
        self._led: dict[tuple[Uuid, int], int] = {}
        self.marked = {UNDER_REPLICATED: 0, UNDER_MIN_ISR: 0, AT_MIN_ISR: 0, REASSIGNING: 0}
        """UnderReplicatedPartitions, UnderMinIsrPartitionCount, AtMinIsrPartitionCount, ReassigningPartitions."""

    @property
    def leaders(self) -> int:
        """LeaderCount."""
        return len(self._led)

    def follow(self, delta: MetadataDelta) -> None:
        """The broker was told this. Cost: the changed partitions; where `min.insync.replicas` may have changed, those of the topics."""
        for topic_id, topic in delta.deleted_topics.items():
            for partition_id in topic.partitions:
                self._forget((topic_id, partition_id))
        for topic_id, change in delta.changed_topics.items():
            now = change.after
            if change.before is None:
                self._look(topic_id, now.name, now.partitions.items())
            else:
                self._look(topic_id, now.name, ((number, now.partitions[number]) for number in change.partitions))
                for number in change.removed:
                    self._forget((topic_id, number))
        for topic in self._topics_set_anew(delta):
            self._look(topic.id, topic.name, topic.partitions.items())

    def _topics_set_anew(self, delta: MetadataDelta) -> list[TopicImage]:
        """Topics whose settings, or the broker's defaults for them, have changed."""
        by_name, by_id = delta.image.topics.by_name, delta.image.topics.by_id
        if any(each.resource_type == RESOURCE_BROKER for each in delta.changed_configs):
            return [by_id[topic_id] for topic_id in dict.fromkeys(topic_id for topic_id, _ in self._led)]
        names = (each.resource_name for each in delta.changed_configs if each.resource_type == RESOURCE_TOPIC)
        return [by_name[name] for name in names if name in by_name]

    def _look(self, topic_id: Uuid, topic: str, partitions: Iterable[tuple[int, PartitionRegistration]]) -> None:
        minimum: int | None = None
        for partition_id, partition in partitions:
            self._forget((topic_id, partition_id))
            if partition.leader != self._broker_id:
                continue
            if minimum is None:
                minimum = self._min_insync_replicas(topic)
            marks = marks_of(partition, minimum)
            self._led[topic_id, partition_id] = marks
            self._add(marks, 1)

    def _forget(self, key: tuple[Uuid, int]) -> None:
        known = self._led.pop(key, None)
        if known is not None:
            self._add(known, -1)

    def _add(self, marks: int, by: int) -> None:
        if marks:
            for mark in self.marked:
                if marks & mark:
                    self.marked[mark] += by


def marks_of(partition: PartitionRegistration, min_insync_replicas: int) -> int:
    """What a led partition is counted as. While it is moved, only the replicas that it had before must be in sync (as in Kafka)."""
    is_reassigning = bool(partition.adding_replicas or partition.removing_replicas)
    in_sync = len(partition.isr)
    wanted = len(partition.replicas) - len(partition.adding_replicas)
    minimum = effective_min_isr(min_insync_replicas=min_insync_replicas, replication_factor=len(partition.replicas))
    marks = REASSIGNING if is_reassigning else 0
    if in_sync < wanted:
        marks |= UNDER_REPLICATED
    if in_sync < minimum:
        marks |= UNDER_MIN_ISR
    elif in_sync == minimum:
        marks |= AT_MIN_ISR
    return marks
