"""Of which partitions is a broker in the ISR, and which have no leader?

Derived from the image, so that fencing a broker costs its partitions and not all of them. Kept by the active controller only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.ids import TopicIdPartition
from headrace.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration


class IsrIndex:
    """Broker id -> topic id -> partition ids whose ISR holds the broker; under -1 the partitions without a leader."""

    def __init__(self) -> None:
        self._members: dict[int, dict[Uuid, set[int]]] = {}
        self._led: dict[int, int] = {}

    @classmethod
    def of(cls, image: MetadataImage) -> IsrIndex:
        """The index of a whole image. Cost: all partitions."""
        index = cls()
        for topic_id in image.topics.by_id:
            for partition_id, partition in image.topics.by_id[topic_id].partitions.items():
                index.changed(TopicIdPartition(topic_id, partition_id), None, partition)
        return index

    def changed(
        self, place: TopicIdPartition, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> None:
        """One partition appeared, changed or went."""
        old = () if before is None else _keys(before)
        new = () if after is None else _keys(after)
        for key in old:
            if key not in new:
                self._remove(key, place)
        for key in new:
            if key not in old:
                self._members.setdefault(key, {}).setdefault(place.topic_id, set()).add(place.partition)
        if before is not None:
            self._led[before.leader] = self._led.get(before.leader, 0) - 1
        if after is not None:
            self._led[after.leader] = self._led.get(after.leader, 0) + 1

    def partitions_with(self, broker_id: int) -> list[TopicIdPartition]:
        """The partitions whose ISR holds the broker, in a fixed order."""
        topics = self._members.get(broker_id, {})
        return [TopicIdPartition(topic_id, each) for topic_id in sorted(topics) for each in sorted(topics[topic_id])]

    def without_leader(self) -> list[TopicIdPartition]:
        """The partitions that nobody leads, in a fixed order."""
        return self.partitions_with(NO_LEADER)

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether the broker leads any partition."""
        return self._led.get(broker_id, 0) > 0

    def _remove(self, key: int, place: TopicIdPartition) -> None:
        topics = self._members[key]
        partitions = topics[place.topic_id]
        partitions.discard(place.partition)
        if not partitions:
            del topics[place.topic_id]


def _keys(partition: PartitionRegistration) -> Iterable[int]:
    return (*partition.isr, NO_LEADER) if partition.leader == NO_LEADER else partition.isr
