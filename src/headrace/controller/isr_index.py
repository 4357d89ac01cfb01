"""An index of partitions by broker: in whose ISR or ELR they are, which have no leader, another than the preferred one, or are moving.

Derived from the image, so that fencing a broker costs its partitions and not all of them. Partitions of a topic are bits of one number:
a million partitions over 30 brokers cost some 30 to 150 bytes each, whatever the size of the topics. Kept by every controller,
standby or active, so that a failover does not look at every partition (S2-01).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.ids import TopicIdPartition
from headrace.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration

NOT_PREFERRED = -2
"""Under this stand the partitions that are led by another than their first replica."""
REASSIGNING = -3
"""Under this stand the partitions that have replicas to add or to remove."""
_FIRST_IN_ELR = -4

Bits = dict["Uuid", int]
"""Topic id -> the partitions, as the bits of a number; a topic without any is not there."""


def in_elr(broker_id: int) -> int:
    """Under this stand the partitions whose ELR holds the broker (KIP-966)."""
    return _FIRST_IN_ELR - broker_id


class IsrIndex:
    """Broker id (or one of the negative marks) -> topic id -> partitions. Cost of a change: its ISR."""

    def __init__(self) -> None:
        self._members: dict[int, Bits] = {}
        self._led: dict[int, int] = {}

    @classmethod
    def of(cls, image: MetadataImage) -> IsrIndex:
        """The index of a whole image. Cost: all partitions."""
        index = cls()
        for topic_id, topic in image.topics.by_id.items():
            for partition_id, partition in topic.partitions.items():
                index.changed(topic_id, partition_id, None, partition)
        return index

    def changed(
        self,
        topic_id: Uuid,
        partition_id: int,
        before: PartitionRegistration | None,
        after: PartitionRegistration | None,
    ) -> None:
        """One partition appeared, changed or went."""
        old = () if before is None else _keys(before)
        new = () if after is None else _keys(after)
        if old != new:
            for key in old:
                if key not in new:
                    self._remove(key, topic_id, partition_id)
            bit = 1 << partition_id
            for key in new:
                if key not in old:
                    topics = self._members.get(key)
                    if topics is None:
                        topics = self._members[key] = {}
                    topics[topic_id] = topics.get(topic_id, 0) | bit
        led = self._led
        if before is not None:
            led[before.leader] -= 1
        if after is not None:
            led[after.leader] = led.get(after.leader, 0) + 1

    def topics_with(self, key: int) -> list[tuple[Uuid, int]]:
        """The topics that have such partitions, and these as bits, in a fixed order. `key` is a broker id or a mark."""
        return sorted(self._members.get(key, {}).items())

    def partitions_with(self, key: int) -> Iterator[TopicIdPartition]:
        """The partitions whose ISR holds the broker (or that have the mark), in a fixed order, as of now."""
        for topic_id, bits in self.topics_with(key):
            for partition_id in bit_numbers(bits):
                yield TopicIdPartition(topic_id, partition_id)

    def with_elr(self) -> list[TopicIdPartition]:
        """The partitions that have an ELR. Cost: the brokers, and each member of an ELR."""
        keys = [key for key in self._members if key <= _FIRST_IN_ELR]
        return list(dict.fromkeys(place for key in sorted(keys) for place in self.partitions_with(key)))

    def without_leader(self) -> Iterator[TopicIdPartition]:
        """The partitions that nobody leads, in a fixed order."""
        return self.partitions_with(NO_LEADER)

    def count(self, key: int) -> int:
        """How many partitions stand under a broker id or a mark. Cost: their topics."""
        return sum(bits.bit_count() for bits in self._members.get(key, {}).values())

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether the broker leads any partition."""
        return self._led.get(broker_id, 0) > 0

    def leaderships(self, broker_id: int) -> int:
        """How many partitions the broker leads."""
        return self._led.get(broker_id, 0)

    def _remove(self, key: int, topic_id: Uuid, partition_id: int) -> None:
        topics = self._members[key]
        rest = topics[topic_id] & ~(1 << partition_id)
        if rest:
            topics[topic_id] = rest
        else:
            del topics[topic_id]


def bit_numbers(bits: int) -> Iterator[int]:
    """Which bits are set, ascending. Cost: the number's size once, and each set bit."""
    base = 0
    while bits:
        word = bits & _WORD
        while word:
            lowest = word & -word
            yield base + lowest.bit_length() - 1
            word ^= lowest
        bits >>= _WORD_BITS
        base += _WORD_BITS


_WORD_BITS = 512
_WORD = (1 << _WORD_BITS) - 1


def _keys(partition: PartitionRegistration) -> tuple[int, ...]:
    leader, replicas = partition.leader, partition.replicas
    elr = partition.eligible_leader_replicas
    if leader == replicas[0] and not elr and not partition.adding_replicas and not partition.removing_replicas:
        return partition.isr
    marks = (NO_LEADER,) if leader == NO_LEADER else (NOT_PREFERRED,) if leader != replicas[0] else ()
    if partition.adding_replicas or partition.removing_replicas:
        marks = (*marks, REASSIGNING)
    if elr:
        marks = (*marks, *map(in_elr, elr))
    return (*partition.isr, *marks)
