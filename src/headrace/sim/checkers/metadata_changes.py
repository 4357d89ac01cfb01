"""Metadata that are what the records say, and deltas that are just what differs.  C2 C22"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.sim.checkers.cluster_model import Key, shown_of
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import DeltaPublished

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from headrace.metadata.delta import MetadataDelta
    from headrace.sim.checkers.committed_log import CommittedPrefix, Replayed
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView


def touched_between(prefix: CommittedPrefix, start: int, end: int) -> dict[Key, None]:
    """What the batches that end in (start, end] may have changed."""
    found: dict[Key, None] = {}
    for replayed in prefix.between(start, end):
        found.update(replayed.touched)
    return found


def delta_fault(delta: MetadataDelta, touched: Iterable[Key]) -> str:
    """What a delta leaves out, or says too much, of what differs between its images in the things `touched`; "" when nothing."""
    before, after = delta.previous, delta.image
    differing = {key: None for key in touched if _shown(key, before) != _shown(key, after)}
    for key in differing:
        if not _is_told(key, delta):
            return f"{key.kind} {key.name} changed, and the delta does not say so"
    for key in _told(delta):
        if key not in differing:
            return f"the delta says that {key.kind} {key.name} changed, and it did not"
    return _wrong_topics(delta)


def _shown(key: Key, image: MetadataImage) -> object:
    match key.kind:
        case "config":
            return image.configs.of(*key.name)
        case "quotas":
            return image.client_quotas
        case "acls":
            return image.acls
        case "scram":
            return image.scram
        case _:
            return shown_of(key, image)


def _is_told(key: Key, delta: MetadataDelta) -> bool:
    """Of producer ids no publisher wants to hear."""
    if key.kind == "partition":
        return _is_partition_told(key.name, delta)
    named: dict[str, Container[Any]] = {
        "broker": delta.changed_brokers,
        "controller": delta.changed_controllers,
        "feature": delta.changed_features,
        "config": delta.changed_configs,
        "topic": (*delta.changed_topics, *delta.deleted_topics),
    }
    flags = {"quotas": delta.changed_quotas, "acls": delta.changed_acls, "scram": delta.changed_scram}
    return key.name in named[key.kind] if key.kind in named else flags.get(key.kind, True)


def _is_partition_told(name: Any, delta: MetadataDelta) -> bool:
    topic_id, number = name
    if topic_id in delta.deleted_topics:
        return number in delta.deleted_topics[topic_id].partitions
    change = delta.changed_topics.get(topic_id)
    return change is not None and (number in change.partitions or number in change.removed)


def _told(delta: MetadataDelta) -> Iterable[Key]:
    """Everything that a delta names, but for the three of which it says only that something may have changed."""
    for topic_id, change in delta.changed_topics.items():
        if change.before is None:
            yield Key("topic", topic_id)
        for number in (*change.partitions, *change.removed):
            yield Key("partition", (topic_id, number))
    for topic_id, topic in delta.deleted_topics.items():
        yield Key("topic", topic_id)
        for number in topic.partitions:
            yield Key("partition", (topic_id, number))
    for kind, names in (
        ("broker", delta.changed_brokers),
        ("controller", delta.changed_controllers),
        ("feature", delta.changed_features),
    ):
        for name in names:
            yield Key(kind, name)
    for resource in delta.changed_configs:
        yield Key("config", tuple(resource))


def _wrong_topics(delta: MetadataDelta) -> str:
    """What each partition was before and is now must be what the two images say."""
    for topic_id, change in delta.changed_topics.items():
        for number, (before, after) in change.partitions.items():
            if before != delta.previous.topics.partition_by_id(topic_id, number):
                return f"{change.after.name}-{number} was not {before}"
            if after != delta.image.topics.partition_by_id(topic_id, number):
                return f"{change.after.name}-{number} is not {after}"
        for number, before in change.removed.items():
            if before != delta.previous.topics.partition_by_id(topic_id, number):
                return f"{change.after.name}-{number} was not {before}"
    for topic_id, gone in delta.deleted_topics.items():
        if gone != delta.previous.topics.by_id.get(topic_id):
            return f"the deleted topic {gone.name} was another one"
    return ""


class MetadataChanges(Group):
    """The true images against the model of the cluster, and the deltas of each node against what really changed."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._published: dict[int, tuple[Life, MetadataImage]] = {}
        """Node -> the image that its readers got last, and from which process."""

    def after_changes(self) -> Mapping[type, Handler]:
        """Deltas."""
        return {DeltaPublished: self._delta}

    def committed(self, replayed: Replayed) -> None:
        """What one batch touched (C2)."""
        if replayed.wrong:
            raise self.broken("C2", f"at {replayed.batch.last_offset + 1}: {replayed.wrong}")

    def now_and_then(self, cluster: ClusterView) -> None:
        """The whole image at the end of what is committed (C2)."""
        prefix = self.ghost.committed
        if not prefix.replayed:
            return
        image, model = prefix.replayed[-1].image, prefix.model
        wrong = model.sizes_differ(image) or next(
            (found for key in model.every_key() if (found := model.difference(key, image))), ""
        )
        if wrong:
            raise self.broken("C2", f"at {prefix.end}: {wrong}")

    # each delta is just what differs (C22)

    def _delta(self, life: Life, change: DeltaPublished) -> None:
        delta = change.delta
        known = self._published.get(life.node_id)
        previous = known[1] if known is not None and known[0] is life else EMPTY_IMAGE
        self._published[life.node_id] = (life, delta.image)
        start = previous.provenance.last_contained_offset + 1
        end = delta.image.provenance.last_contained_offset + 1
        if delta.previous.provenance != previous.provenance:
            said = delta.previous.provenance.last_contained_offset + 1
            raise self.broken(
                "C22", f"node {life.node_id} publishes what changed since {said}, its readers know up to {start}", life
            )
        wrong = delta_fault(delta, touched_between(self.ghost.committed, start, end))
        if wrong:
            raise self.broken("C22", f"node {life.node_id} publishes from {start} to {end}: {wrong}", life)
        if delta.from_snapshot and start > 0:
            self.hit("snapshot loaded over older metadata")
            if delta.deleted_topics:
                self.hit("snapshot loaded over topics that are gone")
