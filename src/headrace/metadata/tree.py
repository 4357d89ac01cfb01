"""An image as a tree of directories and files (the metadata shell, KIP-631).

The same names and texts as in Kafka's metadata shell, `/image` and below. A directory is made when it is looked into, so that looking
at one topic of a million costs one topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headrace.core.ids import Uuid
from headrace.core.values import value_class
from headrace.metadata import tree_text
from headrace.metadata.image import (
    METADATA_VERSION,
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
    MetadataImage,
    QuotaEntity,
    TopicImage,
    TopicsImage,
)

RESOURCE_NAMES = {
    RESOURCE_TOPIC: "TOPIC",
    RESOURCE_BROKER: "BROKER",
    RESOURCE_BROKER_LOGGER: "BROKER_LOGGER",
    RESOURCE_CLIENT_METRICS: "CLIENT_METRICS",
    RESOURCE_GROUP: "GROUP",
}
SCRAM_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
QUOTA_NAMES = {"client-id": "clientId", "ip": "ip", "user": "user"}


@value_class(kw_only=False)
class Leaf:
    """A file: one line of text."""

    text: str


class Directory:
    """Named nodes, each made when asked for."""

    __slots__ = ("_child", "_names")

    def __init__(self, names: Callable[[], Iterable[str]], child: Callable[[str], Node | None]) -> None:
        """`child` is asked for any name, also one that `names` does not list."""
        self._names = names
        self._child = child

    def names(self) -> list[str]:
        """The names of its nodes, sorted."""
        return sorted(self._names())

    def child(self, name: str) -> Node | None:
        """The node of that name, None when there is none."""
        return self._child(name)


Node = Leaf | Directory


def directory(children: Mapping[str, Callable[[], Node]]) -> Directory:
    """A directory of a few known names."""

    def child(name: str) -> Node | None:
        make = children.get(name)
        return None if make is None else make()

    return Directory(lambda: children, child)


def files(texts: Mapping[str, str]) -> Directory:
    """A directory of files."""
    return Directory(lambda: texts, lambda name: Leaf(texts[name]) if name in texts else None)


def image_tree(image: MetadataImage) -> Directory:
    """The whole image."""
    return directory(
        {
            "provenance": lambda: Leaf(tree_text.provenance(image.provenance)),
            "features": lambda: _features(image),
            "cluster": lambda: _cluster(image),
            "topics": lambda: _topics(image.topics),
            "configs": lambda: _configs(image),
            "clientQuotas": lambda: _quotas(image),
            "producerIds": lambda: files({"nextProducerId": str(image.next_producer_id or -1)}),
            "acls": lambda: directory({"byId": lambda: _acls(image)}),
            "scram": lambda: _scram(image),
            "delegationToken": lambda: files(
                {name: tree_text.delegation_token(each) for name, each in image.delegation_tokens.items()}
            ),
        }
    )


def _features(image: MetadataImage) -> Directory:
    levels = {name: level for name, level in image.features.levels.items() if name != METADATA_VERSION}
    finalised = {f"finalized_{name}": str(level) for name, level in levels.items()}
    return files({"metadataVersion": tree_text.metadata_version(image.features.metadata_version), **finalised})


def _cluster(image: MetadataImage) -> Directory:
    brokers, controllers = image.cluster.brokers, image.cluster.controllers
    return directory(
        {
            "brokers": lambda: files({str(number): tree_text.broker(each) for number, each in brokers.items()}),
            "controllers": lambda: files(
                {str(number): tree_text.controller(each) for number, each in controllers.items()}
            ),
        }
    )


def _topics(topics: TopicsImage) -> Directory:
    def by_id(name: str) -> Node | None:
        try:
            found = topics.by_id.get(Uuid.parse(name))
        except ValueError:
            return None
        return None if found is None else _topic(found)

    def by_name(name: str) -> Node | None:
        found = topics.by_name.get(name)
        return None if found is None else _topic(found)

    return directory(
        {
            "byName": lambda: Directory(lambda: topics.by_name, by_name),
            "byId": lambda: Directory(lambda: map(str, topics.by_id), by_id),
        }
    )


def _topic(topic: TopicImage) -> Directory:
    def child(name: str) -> Node | None:
        if name in ("name", "id"):
            return Leaf(topic.name if name == "name" else str(topic.id))
        found = topic.partitions.get(int(name)) if name.isdecimal() else None
        return None if found is None else Leaf(tree_text.partition(found))

    return Directory(lambda: ["name", "id", *map(str, topic.partitions)], child)


def _configs(image: MetadataImage) -> Directory:
    resources = {_resource_name(resource): settings for resource, settings in image.configs.by_resource.items()}

    def child(name: str) -> Node | None:
        return files(resources[name]) if name in resources else None

    return Directory(lambda: resources, child)


def _resource_name(resource: ConfigResource) -> str:
    kind = RESOURCE_NAMES.get(resource.resource_type, str(resource.resource_type))
    return f"{kind}:{resource.resource_name}" if resource.resource_name else kind


def _quotas(image: MetadataImage) -> Directory:
    entities = {quota_name(entity): quotas for entity, quotas in image.client_quotas.items()}

    def child(name: str) -> Node | None:
        if name not in entities:
            return None
        return files({key: tree_text.java_double(value) for key, value in entities[name].items()})

    return Directory(lambda: entities, child)


def quota_name(entity: QuotaEntity) -> str:
    """`clientId(x)_ip(y)_user(z)`; the default entity of a kind, which Kafka's shell leaves out, is `<default>`."""
    names = {part.entity_type: part.entity_name for part in entity}
    shown = []
    for kind, word in QUOTA_NAMES.items():
        if kind in names:
            name = names[kind]
            text = "<default>" if name is None else _escaped(name)
            shown.append(f"{word}({text})")
    return "_".join(shown)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _acls(image: MetadataImage) -> Directory:
    return files({str(number): tree_text.acl(each) for number, each in image.acls.items()})


def _scram(image: MetadataImage) -> Directory:
    def users(mechanism: int) -> Directory:
        return files(
            {user: tree_text.scram_credential(each) for (user, kind), each in image.scram.items() if kind == mechanism}
        )

    return directory(
        {name: (lambda number=number: users(number)) for name, number in SCRAM_MECHANISMS.items()}  # type: ignore[misc]
    )
