"""Plain model of brokers, controllers, topics, partitions, features and producer ids, moved by the metadata records alone.

Written from the KIPs (631 records of brokers, topics and partitions; 841 controlled shutdown; 858 log directories; 966 eligible leader
replicas and recovery; 584 and 778 features; 868 metadata transactions; 919 controllers; 1066 cordoned directories), in dictionaries, and
sharing nothing with `metadata.replay`, `metadata.loader` or the controller: what those say is compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.core.ids import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.metadata.image import MetadataImage

Fields = dict[str, Any]
"""One broker, controller or partition: the fields that it has in an image."""

PARTITION_FIELDS: Final = (
    "replicas",
    "directories",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
    "leader",
    "leader_recovery_state",
    "leader_epoch",
    "partition_epoch",
)
BROKER_FIELDS: Final = (
    "broker_epoch",
    "incarnation_id",
    "end_points",
    "features",
    "rack",
    "fenced",
    "in_controlled_shutdown",
    "log_dirs",
    "cordoned_log_dirs",
)
CONTROLLER_FIELDS: Final = ("incarnation_id", "end_points", "features")

MIGRATING: Final = Uuid(bytes(16))
"""KIP-858: the directory of a replica of which nothing is known."""

_NO_LEADER_CHANGE: Final = -2
"""KIP-631: a PartitionChangeRecord's leader when it names none."""

_ALL_TOPICS: Final = ""


class Key(NamedTuple):
    """One thing that a record may change: its kind (`partition`, `topic`, `broker`, ...) and its name."""

    kind: str
    name: Any


class ClusterModel:
    """The cluster as the committed records say it. Metadata transactions show when they end (KIP-868)."""

    def __init__(self) -> None:
        self.brokers: dict[int, Fields] = {}
        self.controllers: dict[int, Fields] = {}
        self.topics: dict[Uuid, str] = {}
        self.partitions: dict[Uuid, dict[int, Fields]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self._held: list[Any] | None = None
        """The records of an open transaction, None when none is open."""
        self._meanings: dict[str, Callable[[Any], list[Key]]] = {
            "RegisterBrokerRecord": self._register_broker,
            "UnregisterBrokerRecord": self._unregister_broker,
            "FenceBrokerRecord": self._fence,
            "UnfenceBrokerRecord": self._unfence,
            "BrokerRegistrationChangeRecord": self._change_broker,
            "RegisterControllerRecord": self._register_controller,
            "TopicRecord": self._create_topic,
            "RemoveTopicRecord": self._remove_topic,
            "PartitionRecord": self._create_partition,
            "PartitionChangeRecord": self._change_partition,
            "ClearElrRecord": self._clear_elr,
            "FeatureLevelRecord": self._set_feature,
            "ConfigRecord": self._set_config,
            "ProducerIdsRecord": self._producer_ids,
            "ClientQuotaRecord": self._quota,
            "AccessControlEntryRecord": self._acl,
            "RemoveAccessControlEntryRecord": self._acl,
            "UserScramCredentialRecord": self._scram,
            "RemoveUserScramCredentialRecord": self._scram,
        }

    def take(self, records: Sequence[Any]) -> dict[Key, None]:
        """Apply decoded records; what may be another thing than before, in the order of the records."""
        changed: dict[Key, None] = {}
        for record in records:
            name = type(record).__name__
            if name == "BeginTransactionRecord":
                self._held = []
            elif name == "AbortTransactionRecord":
                self._held = None
            elif name == "EndTransactionRecord":
                held, self._held = self._held or [], None
                for each in held:
                    changed.update(dict.fromkeys(self._apply(each)))
            elif self._held is not None:
                self._held.append(record)
            else:
                changed.update(dict.fromkeys(self._apply(record)))
        return changed

    def _apply(self, record: Any) -> list[Key]:
        """What is not named in the table changes nothing that the model keeps."""
        meaning = self._meanings.get(type(record).__name__)
        return [] if meaning is None else meaning(record)

    # Brokers (KIP-631, KIP-841, KIP-858) and controllers (KIP-919): what registers them, and what changes them

    def _register_broker(self, record: Any) -> list[Key]:
        self.brokers[record.broker_id] = {
            "broker_epoch": record.broker_epoch,
            "incarnation_id": record.incarnation_id,
            "end_points": _end_points(record),
            "features": _ranges(record),
            "rack": record.rack,
            "fenced": record.fenced,
            "in_controlled_shutdown": record.in_controlled_shutdown,
            "log_dirs": tuple(sorted(record.log_dirs)),
            "cordoned_log_dirs": _sorted_or_none(record.cordoned_log_dirs),
        }
        return [Key("broker", record.broker_id)]

    def _unregister_broker(self, record: Any) -> list[Key]:
        del self.brokers[record.broker_id]
        return [Key("broker", record.broker_id)]

    def _fence(self, record: Any) -> list[Key]:
        self.brokers[record.id]["fenced"] = True
        return [Key("broker", record.id)]

    def _unfence(self, record: Any) -> list[Key]:
        self.brokers[record.id]["fenced"] = False
        return [Key("broker", record.id)]

    def _change_broker(self, record: Any) -> list[Key]:
        """KIP-841, KIP-858: 1 fences, -1 unfences, 0 leaves it; nobody leaves a controlled shutdown but by registering anew."""
        broker = self.brokers[record.broker_id]
        if record.fenced:
            broker["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            broker["in_controlled_shutdown"] = True
        if record.log_dirs:
            broker["log_dirs"] = tuple(sorted(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker["cordoned_log_dirs"] = tuple(sorted(record.cordoned_log_dirs))
        return [Key("broker", record.broker_id)]

    def _register_controller(self, record: Any) -> list[Key]:
        self.controllers[record.controller_id] = {
            "incarnation_id": record.incarnation_id,
            "end_points": _end_points(record),
            "features": _ranges(record),
        }
        return [Key("controller", record.controller_id)]

    # Topics and partitions

    def _create_topic(self, record: Any) -> list[Key]:
        self.topics[record.topic_id] = record.name
        self.partitions[record.topic_id] = {}
        return [Key("topic", record.topic_id)]

    def _remove_topic(self, record: Any) -> list[Key]:
        name = self.topics.pop(record.topic_id)
        gone = self.partitions.pop(record.topic_id)
        keys = [Key("partition", (record.topic_id, number)) for number in gone]
        return [Key("topic", record.topic_id), Key("config", (2, name)), *keys]

    def _create_partition(self, record: Any) -> list[Key]:
        self.partitions[record.topic_id][record.partition_id] = {
            "replicas": record.replicas,
            "directories": record.directories or (MIGRATING,) * len(record.replicas),
            "isr": record.isr,
            "removing_replicas": record.removing_replicas,
            "adding_replicas": record.adding_replicas,
            "eligible_leader_replicas": record.eligible_leader_replicas or (),
            "last_known_elr": record.last_known_elr or (),
            "leader": record.leader,
            "leader_recovery_state": record.leader_recovery_state,
            "leader_epoch": record.leader_epoch,
            "partition_epoch": record.partition_epoch,
        }
        return [Key("partition", (record.topic_id, record.partition_id))]

    def _change_partition(self, record: Any) -> list[Key]:
        """What a record does not name stays; the partition epoch rises by one, the leader epoch when a leader is named."""
        partition = self.partitions[record.topic_id][record.partition_id]
        if record.replicas is not None:
            places = dict(zip(partition["replicas"], partition["directories"], strict=False))
            partition["replicas"] = record.replicas
            partition["directories"] = tuple(places.get(each, MIGRATING) for each in record.replicas)
        for name in ("directories", "isr", "removing_replicas", "adding_replicas"):
            if getattr(record, name) is not None:
                partition[name] = getattr(record, name)
        for name in ("eligible_leader_replicas", "last_known_elr"):
            if getattr(record, name) is not None:
                partition[name] = getattr(record, name)
        if record.leader != _NO_LEADER_CHANGE:
            partition["leader"] = record.leader
            partition["leader_epoch"] += 1
        if record.leader_recovery_state in (0, 1):
            partition["leader_recovery_state"] = record.leader_recovery_state
        partition["partition_epoch"] += 1
        return [Key("partition", (record.topic_id, record.partition_id))]

    def _clear_elr(self, record: Any) -> list[Key]:
        """KIP-966: one topic's eligible leader replicas are forgotten, or all."""
        keys = []
        for topic_id, name in self.topics.items():
            if record.topic_name not in (_ALL_TOPICS, name):
                continue
            for number, partition in self.partitions[topic_id].items():
                if partition["eligible_leader_replicas"] or partition["last_known_elr"]:
                    partition.update(eligible_leader_replicas=(), last_known_elr=())
                    partition["partition_epoch"] += 1
                    keys.append(Key("partition", (topic_id, number)))
        return keys

    # The rest

    def _set_feature(self, record: Any) -> list[Key]:
        """KIP-584: level 0 is a feature that is off."""
        self.features.pop(record.name, None)
        if record.feature_level:
            self.features[record.name] = record.feature_level
        return [Key("feature", record.name)]

    def _set_config(self, record: Any) -> list[Key]:
        """What it is set to is the settings model's (C17); here only that it may be another value."""
        return [Key("config", (record.resource_type, record.resource_name))]

    def _producer_ids(self, record: Any) -> list[Key]:
        self.next_producer_id = record.next_producer_id
        return [Key("producer ids", None)]

    def _quota(self, _record: Any) -> list[Key]:
        return [Key("quotas", None)]

    def _acl(self, _record: Any) -> list[Key]:
        return [Key("acls", None)]

    def _scram(self, _record: Any) -> list[Key]:
        return [Key("scram", None)]

    # Comparing

    def said_of(self, key: Key) -> object:
        """What the records say of one thing; None when it is not there."""
        match key.kind:
            case "broker":
                return self.brokers.get(key.name)
            case "controller":
                return self.controllers.get(key.name)
            case "topic":
                return self.topics.get(key.name)
            case "partition":
                return self.partitions.get(key.name[0], {}).get(key.name[1])
            case "feature":
                return self.features.get(key.name, 0)
            case "producer ids":
                return self.next_producer_id
            case _:
                return None

    def difference(self, key: Key, image: MetadataImage) -> str:
        """What an image says otherwise of one thing; "" when nothing."""
        said = self.said_of(key)
        shown = shown_of(key, image)
        return "" if said == shown else f"{key.kind} {key.name} is {shown}, the records say {said}"

    def every_key(self) -> list[Key]:
        """All that is there."""
        keys = [Key("broker", each) for each in self.brokers]
        keys += [Key("controller", each) for each in self.controllers]
        keys += [Key("feature", each) for each in self.features]
        keys += [Key("topic", each) for each in self.topics]
        keys += [Key("partition", (topic, number)) for topic, each in self.partitions.items() for number in each]
        return keys

    def sizes_differ(self, image: MetadataImage) -> str:
        """What an image has more or less of; "" when nothing. That it has the same things is `difference`'s."""
        for kind, said, shown in (
            ("brokers", len(self.brokers), len(image.cluster.brokers)),
            ("controllers", len(self.controllers), len(image.cluster.controllers)),
            ("features", len(self.features), len(image.features.levels)),
            ("topics", len(self.topics), len(image.topics.by_id)),
            ("names of topics", len(self.topics), len(image.topics.by_name)),
        ):
            if said != shown:
                return f"there are {shown} {kind}, the records say {said}"
        return ""


def shown_of(key: Key, image: MetadataImage) -> object:
    """What an image says of one thing, in the words of the model; None when it is not there, or the model does not keep it."""
    match key.kind:
        case "broker":
            return _broker_fields(image.cluster.brokers.get(key.name))
        case "controller":
            return _fields(image.cluster.controllers.get(key.name), CONTROLLER_FIELDS)
        case "topic":
            topic = image.topics.by_id.get(key.name)
            return None if topic is None else topic.name
        case "partition":
            return _fields(image.topics.partition_by_id(*key.name), PARTITION_FIELDS)
        case "feature":
            return image.features.level(key.name)
        case "producer ids":
            return image.next_producer_id
        case _:
            return None


def _fields(value: Any, names: tuple[str, ...]) -> Fields | None:
    if value is None:
        return None
    found: Fields = dict(zip(names, _getter(names)(value), strict=True))
    if "features" in found:
        found["features"] = {name: tuple(level) for name, level in found["features"].items()}
        found["end_points"] = tuple(map(tuple, found["end_points"]))
    return found


@cache
def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values under these names, of which there are several."""
    return attrgetter(*names)


def _broker_fields(value: Any) -> Fields | None:
    return _fields(value, BROKER_FIELDS)


def _end_points(record: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple((each.name, each.host, each.port, each.security_protocol) for each in record.end_points)


def _ranges(record: Any) -> dict[str, tuple[int, int]]:
    return {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}


def _sorted_or_none(ids: tuple[Uuid, ...] | None) -> tuple[Uuid, ...] | None:
    return None if ids is None else tuple(sorted(ids))
