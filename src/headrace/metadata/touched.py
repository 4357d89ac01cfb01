"""The parts of the image that a run of records touched.

Cost: the records, not the cluster. What was touched and ended as it began does not appear in the delta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.metadata.delta import MetadataDelta, NewPartitions, PartitionDelta, TopicDelta
from headrace.metadata.image import RESOURCE_TOPIC, ConfigResource, PartitionRegistration, TopicImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage
    from headrace.wire.schema import Message


class Touched:
    """The names of what records touched, in the order of the records."""

    def __init__(self) -> None:
        self.partitions: dict[Uuid, dict[int, None]] = {}
        self.brokers: dict[int, None] = {}
        self.controllers: dict[int, None] = {}
        self.configs: dict[ConfigResource, None] = {}
        self.features: dict[str, None] = {}
        self.quotas = False
        self.acls = False
        self.scram = False

    def note(self, record: Message, before: MetadataImage) -> None:
        """Remember what `record` touches; `before` is the image that it is replayed on."""
        noter = _NOTERS.get(record.SCHEMA.api_key)
        if noter is not None:
            noter(self, record, before)

    def add(self, other: Touched) -> None:
        """Take over what `other` noted later than this."""
        for topic_id, partitions in other.partitions.items():
            self.partitions.setdefault(topic_id, {}).update(partitions)
        self.brokers.update(other.brokers)
        self.controllers.update(other.controllers)
        self.configs.update(other.configs)
        self.features.update(other.features)
        self.quotas |= other.quotas
        self.acls |= other.acls
        self.scram |= other.scram

    def delta(self, previous: MetadataImage, image: MetadataImage) -> MetadataDelta:
        """From `previous` to `image`, of which everything that differs was noted."""
        changed: dict[Uuid, TopicDelta] = {}
        deleted: dict[Uuid, TopicImage] = {}
        for topic_id, partitions in self.partitions.items():
            before = previous.topics.by_id.get(topic_id)
            after = image.topics.by_id.get(topic_id)
            if after is not None:
                delta = topic_delta(before, after, partitions)
                if delta is not None:
                    changed[topic_id] = delta
            elif before is not None:
                deleted[topic_id] = before
        return MetadataDelta(
            previous=previous,
            image=image,
            changed_topics=changed,
            deleted_topics=deleted,
            changed_brokers=_changed(self.brokers, previous.cluster.brokers, image.cluster.brokers),
            changed_controllers=_changed(self.controllers, previous.cluster.controllers, image.cluster.controllers),
            changed_configs=_changed(self.configs, previous.configs.by_resource, image.configs.by_resource),
            changed_features=_changed(self.features, previous.features.levels, image.features.levels),
            changed_quotas=self.quotas,
            changed_acls=self.acls,
            changed_scram=self.scram,
        )


def topic_delta(before: TopicImage | None, after: TopicImage, partitions: Iterable[int]) -> TopicDelta | None:
    """What happened to these partitions of a topic; None when nothing did and the topic is not new. Those that are gone are named too."""
    if before is None:
        return TopicDelta(before=None, after=after, partitions=NewPartitions(after.partitions))
    known, now = before.partitions, after.partitions
    deltas: dict[int, PartitionDelta] = {}
    for partition in partitions:
        new, old = now.get(partition), known.get(partition)
        if new is not None and new is not old and (old is None or is_changed(old, new)):
            deltas[partition] = PartitionDelta(old, new)
    if len(now) < len(known):
        removed = {number: known[number] for number in sorted(partitions) if number in known and number not in now}
        return TopicDelta(before=before, after=after, partitions=deltas, removed=removed)
    return TopicDelta(before=before, after=after, partitions=deltas) if deltas else None


def is_changed(old: PartitionRegistration, new: PartitionRegistration) -> bool:
    """Whether they differ; mostly the partition epoch tells."""
    return old.partition_epoch != new.partition_epoch or old != new


def _changed(keys: Iterable[Any], before: Mapping[Any, object], after: Mapping[Any, object]) -> tuple[Any, ...]:
    return tuple(key for key in keys if before.get(key) != after.get(key))


def _note_topic(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.partitions.setdefault(record.topic_id, {})


def _note_partition(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.partitions.setdefault(record.topic_id, {})[record.partition_id] = None


def _note_removed_topic(touched: Touched, record: Any, before: MetadataImage) -> None:
    touched.partitions.setdefault(record.topic_id, {})
    topic = before.topics.by_id.get(record.topic_id)
    if topic is not None:
        touched.configs[ConfigResource(RESOURCE_TOPIC, topic.name)] = None


def _note_cleared_elr(touched: Touched, record: Any, before: MetadataImage) -> None:
    names = [record.topic_name] if record.topic_name else sorted(before.topics.by_name)
    for name in names:
        topic = before.topics.by_name.get(name)
        if topic is not None and (cleared := topic.with_elr()):
            touched.partitions.setdefault(topic.id, {}).update(dict.fromkeys(cleared))


def _note_broker(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.brokers[record.broker_id] = None


def _note_fenced_broker(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.brokers[record.id] = None


def _note_controller(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.controllers[record.controller_id] = None


def _note_config(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.configs[ConfigResource(record.resource_type, record.resource_name)] = None


def _note_feature(touched: Touched, record: Any, _before: MetadataImage) -> None:
    touched.features[record.name] = None


def _note_quota(touched: Touched, _record: Message, _before: MetadataImage) -> None:
    touched.quotas = True


def _note_acl(touched: Touched, _record: Message, _before: MetadataImage) -> None:
    touched.acls = True


def _note_scram(touched: Touched, _record: Message, _before: MetadataImage) -> None:
    touched.scram = True


_NOTERS: Final[dict[int, Callable[[Touched, Any, MetadataImage], None]]] = {
    0: _note_broker,
    1: _note_broker,
    2: _note_topic,
    3: _note_partition,
    4: _note_config,
    5: _note_partition,
    7: _note_fenced_broker,
    8: _note_fenced_broker,
    9: _note_removed_topic,
    11: _note_scram,
    12: _note_feature,
    14: _note_quota,
    17: _note_broker,
    18: _note_acl,
    19: _note_acl,
    22: _note_scram,
    27: _note_controller,
    28: _note_cleared_elr,
}
