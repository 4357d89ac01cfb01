"""What a controller knows about an image beside the image.

The indexes of partitions and of topic names. They follow every change at the cost of the change: on a standby the committed deltas, on
the active controller its own records, and back again when records were not committed (B-C23). So neither gaining nor losing
leadership looks at every partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.controller.isr_index import IsrIndex
from headrace.controller.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.core.ids import Uuid
    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.metadata.snapshot import VersionedRecord

_TOPIC, _PARTITION, _PARTITION_CHANGE, _REMOVE_TOPIC, _CLEAR_ELR = 2, 3, 5, 9, 28
_NO_PARTITIONS: Final[Mapping[int, PartitionRegistration]] = {}

Places = dict["Uuid", dict[int, None]]
"""Topic id -> partition ids, in the order they were touched."""


class Derived:
    """The indexes of `image`."""

    def __init__(self, image: MetadataImage, index: IsrIndex, names: TopicNames) -> None:
        self.image = image
        self.index = index
        self.names = names

    @classmethod
    def of(cls, image: MetadataImage) -> Derived:
        """Of a whole image. Cost: all of it."""
        return cls(image, IsrIndex.of(image), TopicNames(image.topics.by_name))

    def replayed(self, records: Sequence[VersionedRecord], after: MetadataImage) -> Places:
        """`records` lead from the present image to `after`; which places they touched."""
        places: Places = {}
        for each in records:
            record: Any = each.record
            kind = record.SCHEMA.api_key
            if kind in (_PARTITION, _PARTITION_CHANGE):
                partitions = places.get(record.topic_id)
                if partitions is None:
                    partitions = places[record.topic_id] = {}
                partitions[record.partition_id] = None
            elif kind == _TOPIC:
                places.setdefault(record.topic_id, {})
            elif kind == _REMOVE_TOPIC:
                topic = self.image.topics.by_id.get(record.topic_id)
                if topic is not None:
                    places.setdefault(topic.id, {}).update(dict.fromkeys(topic.partitions))
            elif kind == _CLEAR_ELR:
                self._cleared(record.topic_name, places)
        self.move(places, after)
        return places

    def _cleared(self, topic_name: str, places: Places) -> None:
        """The ELRs of a topic, or of all, are forgotten; those that the same records made are among `places`."""
        for topic_id, partition_id in self.index.with_elr():
            topic = self.image.topics.by_id.get(topic_id)
            if not topic_name or (topic is not None and topic.name == topic_name):
                places.setdefault(topic_id, {})[partition_id] = None

    def follow(self, delta: MetadataDelta) -> None:
        """The committed image went on."""
        assert delta.previous is self.image
        places: Places = {topic_id: dict.fromkeys(topic.partitions) for topic_id, topic in delta.deleted_topics.items()}
        for topic_id, change in delta.changed_topics.items():
            places[topic_id] = dict.fromkeys((*change.partitions, *change.removed))
        self.move(places, delta.image)

    def move(self, places: Mapping[Uuid, Iterable[int]], after: MetadataImage) -> None:
        """The indexes of `after`, which differs from the present image in `places` only. Cost: the places."""
        before_topics, after_topics = self.image.topics.by_id, after.topics.by_id
        changed = self.index.changed
        come: list[str] = []
        for topic_id, partitions in places.items():
            old, new = before_topics.get(topic_id), after_topics.get(topic_id)
            if old is None and new is not None:
                come.append(new.name)
            elif new is None and old is not None:
                self.names.remove(old.name)
            was = _NO_PARTITIONS if old is None else old.partitions
            now = _NO_PARTITIONS if new is None else new.partitions
            for partition_id in partitions:
                changed(topic_id, partition_id, was.get(partition_id), now.get(partition_id))
        for name in come:  # behind those that went: it may be the name of one of them
            self.names.add(name)
        self.image = after
