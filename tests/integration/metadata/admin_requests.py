"""Which admin requests are sent to Kafka and to Headrace alike, one after the other, to compare the answers?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from headrace.core.ids import Uuid
from headrace.wire.messages import alter_configs, incremental_alter_configs, update_features
from headrace.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schema import Message

UNKNOWN = Uuid.parse("5L6g3nShT-eMCtK--X86sw")
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Question(NamedTuple):
    """A request in one version, and what it asks in words."""

    title: str
    request: Message
    version: int


def questions() -> Iterator[Question]:
    """All of them, in an order in which each finds what it needs."""
    yield from _creations()
    yield from _more_partitions()
    yield from _incremental_changes()
    yield from _replacements()
    yield from _levels()
    yield from _deletions()


def _new(name: str, partitions: int = 1, factor: int = 1, **changes: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **changes)


def _creations() -> Iterator[Question]:
    for version in (2, 3, 4, 5, 6, 7):
        yield Question("create", CreateTopicsRequest(topics=(_new(f"c{version}", 3),)), version)
    single = {
        "again": _new("c7"),
        "defaults": _new("d1", -1, -1),
        "dots": _new("a.b"),
        "collision": _new("a_b"),
        **{f"name {name!r}": _new(name) for name in _NAMES},
        **{f"{n} partitions, factor {r}": _new("numbers", n, r) for n, r in _NUMBERS},
        **{f"settings {configs}": _new("settings", configs=_configs(configs)) for configs in _CONFIGS},
        **{f"assignment {given}": _new("assigned", -1, -1, assignments=_assignments(given)) for given in _ASSIGNMENTS},
        "assignment and partitions": _new("x", 1, -1, assignments=_assignments([(0, (1,))])),
        "assignment and factor": _new("x", -1, 1, assignments=_assignments([(0, (1,))])),
    }
    for title, topic in single.items():
        yield Question(title, CreateTopicsRequest(topics=(topic,)), 7)
    yield Question("collision in one request", CreateTopicsRequest(topics=(_new("q.b"), _new("q_b"))), 7)
    yield Question("repeated", CreateTopicsRequest(topics=(_new("dup"), _new("dup"), _new("other"))), 7)
    yield Question("mixed", CreateTopicsRequest(topics=(_new("m1"), _new("m 2"), _new("m3", 1, 3))), 7)
    yield Question("none", CreateTopicsRequest(), 7)
    for factor in (1, 5):
        yield Question("validate", CreateTopicsRequest(topics=(_new("v", 2, factor),), validate_only=True), 7)


_NAMES = ["", ".", "..", "x" * 249, "x" * 250, "a/b", "a\0b", "a\nb", "a b", "\u00e9", "__cluster_metadata", "__own"]
_NUMBERS = [(0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 3), (-1, 2), (10_001, 1), (10_000, 1)]
_CONFIGS: list[dict[str, str | None]] = [
    {"cleanup.policy": "compact", "retention.ms": "1000"},
    {"no.such": "1"},
    {"retention.ms": "x"},
    {"retention.ms": "-5"},
    {"cleanup.policy": "nope"},
    {"retention.ms": None},
    {"retention.ms": None, "no.such": None},
    {"segment.bytes": "1"},
    {"min.insync.replicas": "0"},
    {"compression.type": "lzma"},
    {"min.cleanable.dirty.ratio": "2"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"remote.storage.enable": "true"},
    {"message.timestamp.type": "x"},
]
_ASSIGNMENTS: list[list[tuple[int, tuple[int, ...]]]] = [
    [(0, (1,)), (1, (1,))],
    [(0, ())],
    [(0, (1, 1))],
    [(0, (9,))],
    [(0, (1,)), (2, (1,))],
    [(0, (1,)), (0, (1,))],
    [(-1, (1,))],
    [(0, (1,)), (1, (1, 9))],
]


def _configs(given: dict[str, str | None]) -> tuple[CreatableTopicConfig, ...]:
    return tuple(CreatableTopicConfig(name=name, value=value) for name, value in given.items())


def _assignments(given: list[tuple[int, tuple[int, ...]]]) -> tuple[CreatableReplicaAssignment, ...]:
    return tuple(CreatableReplicaAssignment(partition_index=number, broker_ids=ids) for number, ids in given)


def _more_partitions() -> Iterator[Question]:
    def more(count: int, assignments: list[tuple[int, ...]] | None = None, name: str = "c7") -> CreatePartitionsTopic:
        given = None if assignments is None else tuple(CreatePartitionsAssignment(broker_ids=a) for a in assignments)
        return CreatePartitionsTopic(name=name, count=count, assignments=given)

    for version in (0, 1, 2, 3):
        request = CreatePartitionsRequest(topics=(more(4 + version),), timeout_ms=30_000)
        yield Question("more partitions", request, version)
    for topic in (
        *[more(count) for count in (7, 2, 0, -1)],
        more(2, name="nope"),
        *[more(9, given) for given in _MORE_ASSIGNMENTS],
    ):
        request = CreatePartitionsRequest(topics=(topic,), timeout_ms=30_000)
        yield Question(f"{topic.count} partitions, {topic.assignments}", request, 3)
    request = CreatePartitionsRequest(topics=(more(20), more(20)), timeout_ms=30_000)
    yield Question("repeated topic", request, 3)
    request = CreatePartitionsRequest(topics=(more(20),), timeout_ms=30_000, validate_only=True)
    yield Question("validate more partitions", request, 3)


_MORE_ASSIGNMENTS: list[list[tuple[int, ...]]] = [
    [(1,)],
    [(9,), (9,)],
    [(1, 1), (1,)],
    [(), ()],
    [],
    [(1,), (1,)],
]


def _incremental_changes() -> Iterator[Question]:
    def change(
        *operations: tuple[str, int, str | None], kind: int = TOPIC, name: str = "c7", validate: bool = False
    ) -> Message:
        configs = tuple(
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate)

    retention = ("retention.ms", SET, "5")
    threads = ("log.cleaner.threads", SET, "1")
    changes = {
        "set": change(retention),
        "delete": change(("retention.ms", DELETE, None)),
        "append": change(("cleanup.policy", APPEND, "compact")),
        "append again": change(("cleanup.policy", APPEND, "compact")),
        "subtract": change(("cleanup.policy", SUBTRACT, "delete")),
        "append to no list": change(("retention.ms", APPEND, "5")),
        "null": change(("retention.ms", SET, None)),
        "unknown key": change(("no.such", SET, "5")),
        "bad value": change(("retention.ms", SET, "x")),
        "unknown topic": change(retention, name="nope"),
        "no topic": change(retention, name=""),
        "key twice": change(retention, ("retention.ms", SET, "6")),
        "nothing": change(),
        "validate": change(("retention.ms", SET, "7"), validate=True),
        "unknown kind 0": change(retention, kind=0, name="x"),
        "unknown kind 99": change(retention, kind=99, name="x"),
        "broker": change(threads, kind=BROKER, name="1"),
        "all brokers": change(threads, kind=BROKER, name=""),
        "unknown broker": change(threads, kind=BROKER, name="9"),
        "no broker": change(threads, kind=BROKER, name="x"),
        "negative broker": change(threads, kind=BROKER, name="-1"),
        "read-only": change(("broker.id", SET, "2"), kind=BROKER, name="1"),
        "bad broker value": change(("log.cleaner.threads", SET, "x"), kind=BROKER, name="1"),
    }
    for title, request in changes.items():
        yield Question(f"incremental {title}", request, 1)
    twice = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="c7")
    yield Question(
        "resource twice", incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(twice, twice)), 1
    )


def _replacements() -> Iterator[Question]:
    def replace(*configs: tuple[str, str | None], kind: int = TOPIC, name: str = "c7") -> Message:
        given = tuple(alter_configs.AlterableConfig(name=key, value=value) for key, value in configs)
        resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
        return alter_configs.AlterConfigsRequest(resources=(resource,))

    for title, request in {
        "set": replace(("retention.ms", "5")),
        "clear": replace(),
        "bad value": replace(("retention.ms", "x")),
        "null": replace(("retention.ms", None)),
        "unknown key": replace(("no.such", "1")),
        "key twice": replace(("retention.ms", "1"), ("retention.ms", "2")),
        "unknown topic": replace(("retention.ms", "1"), name="nope"),
        "unknown kind": replace(kind=0, name="x"),
    }.items():
        yield Question(f"replace {title}", request, 2)


def _levels() -> Iterator[Question]:
    def update(*updates: tuple[str, int, int], validate: bool = False) -> Message:
        keys = tuple(
            update_features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        )
        return update_features.UpdateFeaturesRequest(feature_updates=keys, validate_only=validate)

    level = "metadata.version"
    for version in (1, 2):
        for updates in (
            *[[(level, number, kind)] for number in (30, 29, 31, 99, 6, -1) for kind in (1, 2, 3)],
            [(level, 30, 0)],
            [(level, 30, 9)],
            [("no.such", 1, 1)],
            [("no.such", 0, 1)],
            [("transaction.version", 0, 1)],
            [("kraft.version", 0, 1)],
            [(level, 30, 1), ("no.such", 1, 1)],
            [],
        ):
            yield Question(f"levels {updates}", update(*updates), version)
        yield Question("validate levels", update((level, 30, 1), validate=True), version)


def _deletions() -> Iterator[Question]:
    def delete(*states: DeleteTopicState) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=states, timeout_ms=30_000)

    for version in (1, 3, 4, 5):
        request = DeleteTopicsRequest(topic_names=(f"c{version + 1}", "nope"), timeout_ms=30_000)
        yield Question("delete names", request, version)
    name, unknown = DeleteTopicState(name="c7"), DeleteTopicState(topic_id=UNKNOWN)
    for title, request in {
        "nothing": delete(),
        "neither": delete(DeleteTopicState()),
        "both": delete(DeleteTopicState(name="c7", topic_id=UNKNOWN)),
        "name twice": delete(name, name),
        "name": delete(name),
        "name again": delete(name),
        "unknown id": delete(unknown),
        "id twice": delete(unknown, unknown),
        "metadata topic": delete(DeleteTopicState(name="__cluster_metadata")),
        "no time": DeleteTopicsRequest(topics=(DeleteTopicState(name="m1"),), timeout_ms=0),
    }.items():
        yield Question(f"delete {title}", request, 6)
