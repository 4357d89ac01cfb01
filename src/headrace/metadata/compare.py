"""Differences between two images that have no history in common.

For a snapshot that replaced everything: deleted topics and lost partitions show by their absence (B-S09). Cost: both images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.metadata.delta import MetadataDelta, TopicDelta
from headrace.metadata.touched import topic_delta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage


def compare_images(previous: MetadataImage, image: MetadataImage) -> MetadataDelta:
    """The delta from one image to another; its parts are in sorted order."""
    changed: dict[Uuid, TopicDelta] = {}
    for name in sorted(image.topics.by_name):
        after = image.topics.by_name[name]
        before = previous.topics.by_id.get(after.id)
        if before is not after:
            numbers = {*after.partitions, *(() if before is None else before.partitions)}
            delta = topic_delta(before, after, sorted(numbers))
            if delta is not None:
                changed[after.id] = delta
    gone = [topic for topic in previous.topics.by_name.values() if topic.id not in image.topics.by_id]
    return MetadataDelta(
        previous=previous,
        image=image,
        changed_topics=changed,
        deleted_topics={topic.id: topic for topic in sorted(gone, key=lambda topic: topic.name)},
        changed_brokers=_differing(previous.cluster.brokers, image.cluster.brokers),
        changed_controllers=_differing(previous.cluster.controllers, image.cluster.controllers),
        changed_configs=_differing(previous.configs.by_resource, image.configs.by_resource),
        changed_features=_differing(previous.features.levels, image.features.levels),
        changed_quotas=previous.client_quotas != image.client_quotas,
        changed_acls=previous.acls != image.acls,
        changed_scram=previous.scram != image.scram,
        from_snapshot=True,
    )


def _differing(before: Mapping[Any, object], after: Mapping[Any, object]) -> tuple[Any, ...]:
    keys = sorted({*before, *after})
    return tuple(key for key in keys if before.get(key) != after.get(key))
