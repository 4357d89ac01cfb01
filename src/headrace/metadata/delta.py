"""Differences between two images.

A delta is made by `metadata.loader`: from the records that were replayed (cost: the change), or by comparing two images when a
snapshot replaced everything (cost: everything; B-S09). It holds both images, so a publisher never needs anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.values import value_class
from headrace.metadata.image import ConfigResource, MetadataImage, PartitionRegistration, TopicImage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from immutables import Map

    from headrace.core.ids import Uuid


class PartitionDelta(NamedTuple):
    """One partition before and after; `before` is None when it is new."""

    before: PartitionRegistration | None
    after: PartitionRegistration

    @property
    def is_new_leader_epoch(self) -> bool:
        """The leader was decided anew: the leader must start an epoch and followers must follow again."""
        return self.before is None or self.before.leader_epoch != self.after.leader_epoch


class NewPartitions(Mapping[int, PartitionDelta]):
    """The partitions of a new topic, ascending; each delta is made when it is looked at, not kept."""

    __slots__ = ("_partitions",)

    def __init__(self, partitions: Map[int, PartitionRegistration]) -> None:
        self._partitions = partitions

    def __getitem__(self, partition: int) -> PartitionDelta:
        return PartitionDelta(None, self._partitions[partition])

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._partitions))

    def __len__(self) -> int:
        return len(self._partitions)


@value_class
class TopicDelta:
    """One topic that is new or has changed partitions; `before` is None when the topic is new."""

    before: TopicImage | None
    after: TopicImage
    partitions: Mapping[int, PartitionDelta]
    removed: Mapping[int, PartitionRegistration] = field(default_factory=dict)
    """Partitions that are gone, as they were (S3-78)."""


class LocalPartition(NamedTuple):
    """One partition of one broker's interest."""

    topic: str
    topic_id: Uuid
    partition: int
    delta: PartitionDelta


@value_class
class LocalChanges:
    """What the changed partitions mean for one broker.

    `removed` are replicas this broker held and must delete (topic or partition deleted, or moved away); their `delta.after` is the last known
    state for what was deleted. A partition is in one list only.
    """

    leaders: tuple[LocalPartition, ...]
    followers: tuple[LocalPartition, ...]
    removed: tuple[LocalPartition, ...]


@value_class
class MetadataDelta:
    """From `previous` to `image`: which parts were touched. Order within each mapping is that of the records."""

    previous: MetadataImage
    image: MetadataImage
    changed_topics: Mapping[Uuid, TopicDelta] = field(default_factory=dict)
    deleted_topics: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    """Topics of `previous` that are gone, as they were; a topic made and deleted between the images is in neither."""
    changed_brokers: tuple[int, ...] = ()
    """Ids whose registration appeared, changed or went."""
    changed_controllers: tuple[int, ...] = ()
    changed_configs: tuple[ConfigResource, ...] = ()
    changed_features: tuple[str, ...] = ()
    changed_quotas: bool = False
    changed_acls: bool = False
    changed_scram: bool = False
    from_snapshot: bool = False

    @property
    def is_empty(self) -> bool:
        """Nothing a publisher cares about changed (only the offset moved on)."""
        return not (
            self.changed_topics
            or self.deleted_topics
            or self.changed_brokers
            or self.changed_controllers
            or self.changed_configs
            or self.changed_features
            or self.changed_quotas
            or self.changed_acls
            or self.changed_scram
            or self.from_snapshot
        )

    def local_changes(self, broker_id: int) -> LocalChanges:
        """What the broker must lead, follow and delete because of this delta. Cost: the change, not the cluster."""
        leaders: list[LocalPartition] = []
        followers: list[LocalPartition] = []
        removed = list(self._deleted(broker_id))
        for topic_id, change in self.changed_topics.items():
            for partition, delta in change.partitions.items():
                local = LocalPartition(change.after.name, topic_id, partition, delta)
                if delta.after.leader == broker_id:
                    leaders.append(local)
                elif broker_id in delta.after.replicas:
                    followers.append(local)
                elif delta.before is not None and broker_id in delta.before.replicas:
                    removed.append(local)
        return LocalChanges(leaders=tuple(leaders), followers=tuple(followers), removed=tuple(removed))

    def _deleted(self, broker_id: int) -> Iterator[LocalPartition]:
        """The broker's replicas of topics and partitions that are gone."""
        gone: list[tuple[str, Uuid, Mapping[int, PartitionRegistration]]]
        gone = [(topic.name, topic_id, topic.partitions) for topic_id, topic in self.deleted_topics.items()]
        gone += [
            (each.after.name, topic_id, each.removed) for topic_id, each in self.changed_topics.items() if each.removed
        ]
        for name, topic_id, partitions in gone:
            for partition, registration in partitions.items():
                if broker_id in registration.replicas:
                    yield LocalPartition(name, topic_id, partition, PartitionDelta(registration, registration))
