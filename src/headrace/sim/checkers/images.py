"""The same metadata at the same offset on every node, all of each operation, and nothing early.  C2 C3 C18"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import BatchApplied, ImagePublished, SnapshotApplied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.metadata.delta import MetadataDelta
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView


def images_differ(one: MetadataImage, other: MetadataImage) -> str:
    """The first part in which two images say different things; "" when there is none. Cost: both images."""
    parts = (
        ("topics", one.topics.by_id == other.topics.by_id),
        ("topic names", one.topics.by_name == other.topics.by_name),
        ("brokers", one.cluster.brokers == other.cluster.brokers),
        ("controllers", one.cluster.controllers == other.cluster.controllers),
        ("features", one.features.levels == other.features.levels),
        ("configs", one.configs.by_resource == other.configs.by_resource),
        ("producer ids", one.next_producer_id == other.next_producer_id),
        ("quotas", one.client_quotas == other.client_quotas),
        ("acls", one.acls == other.acls),
        ("scram", one.scram == other.scram),
        ("delegation tokens", one.delegation_tokens == other.delegation_tokens),
    )
    return next((name for name, is_equal in parts if not is_equal), "")


def touched_parts_differ(one: MetadataImage, other: MetadataImage, delta: MetadataDelta) -> str:
    """As `images_differ`, but looks only at what `delta` touched. Cost: the change."""
    return next(_touched(one, other, delta), "")


def _touched(one: MetadataImage, other: MetadataImage, delta: MetadataDelta) -> Iterator[str]:
    yield from _touched_topics(one, other, delta)
    maps: tuple[tuple[str, Iterable[Any], Mapping[Any, object], Mapping[Any, object]], ...] = (
        ("broker", delta.changed_brokers, one.cluster.brokers, other.cluster.brokers),
        ("controller", delta.changed_controllers, one.cluster.controllers, other.cluster.controllers),
        ("configs of", delta.changed_configs, one.configs.by_resource, other.configs.by_resource),
        ("feature", delta.changed_features, one.features.levels, other.features.levels),
    )
    for name, keys, mine, truth in maps:
        for key in keys:
            if mine.get(key) != truth.get(key):
                yield f"{name} {key}"
    if one.next_producer_id != other.next_producer_id:
        yield "producer ids"
    if delta.changed_quotas and one.client_quotas != other.client_quotas:
        yield "quotas"
    if delta.changed_acls and one.acls != other.acls:
        yield "acls"
    if delta.changed_scram and one.scram != other.scram:
        yield "scram"


def _touched_topics(one: MetadataImage, other: MetadataImage, delta: MetadataDelta) -> Iterator[str]:
    for topic_id, change in delta.changed_topics.items():
        mine, truth = one.topics.by_id.get(topic_id), other.topics.by_id.get(topic_id)
        if mine is None or truth is None:
            if mine is not truth:
                yield f"topic {change.after.name}"
            continue
        for number in (*change.partitions, *change.removed):
            if mine.partitions.get(number) != truth.partitions.get(number):
                yield f"partition {change.after.name}-{number}"
    for topic_id, gone in delta.deleted_topics.items():
        if (topic_id in one.topics.by_id) != (topic_id in other.topics.by_id):
            yield f"deleted topic {gone.name}"


class Images(Group):
    """The image that each node's readers got last."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._seen: dict[int, tuple[Life, int]] = {}
        self._broken_lives: set[tuple[int, int]] = set()
        self._rebuilt = 0
        """So many committed batches were replayed from nothing, and found to mean what was seen."""

    def before_changes(self) -> Mapping[type, Handler]:
        """A loader that failed takes nothing more (C18)."""
        return {BatchApplied: self._goes_on, SnapshotApplied: self._goes_on}

    def after_changes(self) -> Mapping[type, Handler]:
        """A node's readers got a new image."""
        return {ImagePublished: self._published}

    def began(self, life: Life) -> None:
        """A process starts with the empty image."""
        self._seen.setdefault(life.node_id, (life, 0))
        if self._seen[life.node_id][0] is not life:
            self._seen[life.node_id] = (life, 0)

    def _goes_on(self, life: Life, change: object) -> None:
        plane = self.scene.step.node.plane
        if plane is not None and getattr(plane.loader, "_fault", None) is not None:
            if (life.node_id, life.run) in self._broken_lives:
                raise self.broken("C18", f"node {life.node_id} goes on after a record that it could not replay", life)
            self._broken_lives.add((life.node_id, life.run))

    def _published(self, life: Life, change: ImagePublished) -> None:
        image = change.image
        end = image.provenance.last_contained_offset + 1
        known = self._seen.get(life.node_id)
        before = known[1] if known is not None and known[0] is life else 0
        if end < before:
            raise self.broken("R8", f"the image of node {life.node_id} went back from {before} to {end}", life)
        self._seen[life.node_id] = (life, end)
        prefix = self.ghost.committed
        if end > prefix.end:
            raise self.broken("C3", f"node {life.node_id} shows metadata up to {end}, committed is {prefix.end}", life)
        truth = self._truth(end)
        if truth is None:
            raise self.broken(
                "C4", f"node {life.node_id} shows metadata up to {end}, in the middle of an operation", life
            )
        for replayed in prefix.between(before, end):
            if replayed.delta is not None:
                where = touched_parts_differ(image, truth, replayed.delta)
                if where:
                    raise self.broken(
                        "C2", f"at {end}, node {life.node_id} has another {where} than the log says", life
                    )

    def _truth(self, end: int) -> MetadataImage | None:
        """The true image whose last record is below `end`. An open metadata transaction hides what follows it."""
        prefix = self.ghost.committed
        exact = prefix.image_at(end)
        if exact is not None and exact.provenance.last_contained_offset + 1 == end:
            return exact
        for replayed in prefix.between(end, prefix.end):
            if replayed.image.provenance.last_contained_offset + 1 == end:
                return replayed.image
            if replayed.image.provenance.last_contained_offset + 1 > end:
                break
        return EMPTY_IMAGE if end == 0 else None

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every node's whole image, and a rebuild from nothing (C2)."""
        for node in cluster.nodes.values():
            image = node.image
            if image is None:
                continue
            truth = self._truth(image.provenance.last_contained_offset + 1)
            where = "end" if truth is None else images_differ(image, truth)
            if where:
                raise self.broken("C2", f"node {node.node_id} has other {where} than the log says")

    def at_end(self, cluster: ClusterView) -> None:
        """The whole log once more, from nothing, in one go."""
        self.now_and_then(cluster)
        replayed = self.ghost.committed.replayed
        if len(replayed) == self._rebuilt:
            return
        loader = MetadataLoader()
        try:
            loader.load_batches([each.batch for each in replayed])
        except MetadataFault as fault:
            raise self.broken("C18", f"the committed log cannot be replayed: {fault}") from fault
        truth = self.ghost.committed.image_at(self.ghost.committed.end)
        if truth is not None:
            where = images_differ(loader.image, truth)
            if where:
                raise self.broken("C2", f"a rebuild from nothing has other {where}")
        self._rebuilt = len(replayed)
