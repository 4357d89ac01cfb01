"""Levels of features that every node of the cluster supports (C24), and replicas placed only where they may be (C25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.controller.events import RequestArrived
from headrace.metadata.image import NO_LEADER
from headrace.sim.checkers.controller_steps import Decided, Judge
from headrace.sim.checkers.decision_rules import touched
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.metadata.image import FeatureRange, MetadataImage, PartitionRegistration

_UPGRADE: Final = 1
_METADATA_VERSION: Final = "metadata.version"
RESERVED_DIRECTORIES: Final = 100
"""Directory ids below this stand for no directory (KIP-858)."""


def _supports(features: Mapping[str, FeatureRange], name: str, level: int) -> bool:
    """KIP-584: a feature that a node does not name it has at level 0 only."""
    low, high = features.get(name, (0, 0))
    return low <= level <= high


class SupportedFeatures(Judge):
    """A level is finalized only when every registered node supports it; only who supports all levels registers (C24)."""

    def decided(self, decided: Decided) -> None:
        """Levels that are set on request, and registrations."""
        event = decided.event
        if not isinstance(event, RequestArrived):
            return
        for record in decided.records:
            if isinstance(record, FeatureLevelRecord):
                self._set(decided, record)
            elif isinstance(record, RegisterBrokerRecord):
                self._registered(decided, record)

    def _set(self, decided: Decided, record: FeatureLevelRecord) -> None:
        self.group.hit("feature level changed")
        event, cluster = decided.event, decided.before.cluster
        nodes = [(f"broker {each.broker_id}", each.features) for each in cluster.brokers.values()]
        nodes += [(f"controller {each.controller_id}", each.features) for each in cluster.controllers.values()]
        for who, features in nodes:
            if not _supports(features, record.name, record.feature_level):
                raise self.group.broken(
                    "C24", f"{record.name} is set to {record.feature_level}, {who} supports {features.get(record.name)}"
                )
        request = event.request
        if isinstance(request, UpdateFeaturesRequest):
            current = decided.before.features.level(record.name)
            asked = next(each for each in request.feature_updates if each.feature == record.name)
            if record.feature_level < current and asked.upgrade_type == _UPGRADE:
                raise self.group.broken("C24", f"{record.name} fell from {current} by an upgrade", decided.life)
            if request.validate_only:
                raise self.group.broken("C24", "an UpdateFeatures that only asks was written", decided.life)

    def _registered(self, decided: Decided, record: RegisterBrokerRecord) -> None:
        features = {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}
        for name, level in decided.before.features.levels.items():
            low, high = features.get(name, (0, 0))
            if not low <= level <= high:
                raise self.group.broken(
                    "C24",
                    f"broker {record.broker_id} was registered with {name} {low}-{high}, its level is {level}",
                    decided.life,
                )


class UsableDirectories(Judge):
    """Who leads has its replica in a directory that is online; new replicas do not go where they may not (KIP-858, KIP-1066; C25)."""

    def decided(self, decided: Decided) -> None:
        """What was touched, and everything when a broker's directories went."""
        if not decided.records:
            return
        before, after = decided.before.cluster.brokers, decided.after.cluster.brokers
        has_lost = any(
            broker_id in after and not set(old.log_dirs) <= set(after[broker_id].log_dirs)
            for broker_id, old in before.items()
            if old is not after.get(broker_id)
        )
        if has_lost:
            for name, partition in _all_partitions(decided.after):
                self._check_leader(decided, name, partition)
        else:
            for topic_id, number, _, now in touched(decided):
                if now is not None:
                    self._check_leader(decided, f"{topic_id}-{number}", now)
        self._check_new(decided)

    def _check_leader(self, decided: Decided, name: str, partition: PartitionRegistration) -> None:
        leader = decided.after.cluster.brokers.get(partition.leader)
        if partition.leader == NO_LEADER or leader is None or not leader.log_dirs:
            return
        directory = partition.directory_of(partition.leader)
        if int.from_bytes(directory, "big") >= RESERVED_DIRECTORIES and directory not in leader.log_dirs:
            raise self.group.broken(
                "C25",
                f"{name} is led by {partition.leader} out of directory {directory}, which it has not",
                decided.life,
            )

    def _check_new(self, decided: Decided) -> None:
        event = decided.event
        request = event.request if isinstance(event, RequestArrived) else None
        if not isinstance(request, CreateTopicsRequest | CreatePartitionsRequest):
            return
        if any(topic.assignments for topic in request.topics):
            return
        brokers = decided.before.cluster.brokers
        for record in decided.records:
            if not isinstance(record, PartitionRecord):
                continue
            for replica, directory in zip(record.replicas, record.directories or (), strict=False):
                known, cordoned = set(brokers[replica].log_dirs), set(brokers[replica].cordoned_log_dirs or ())
                if directory in cordoned or (known and known <= cordoned):  # registered before KIP-858: none is known
                    raise self.group.broken(
                        "C25", f"a new replica goes to {directory} of broker {replica}, cordoned are {cordoned}"
                    )
                if cordoned:
                    self.group.hit("new replica on a broker with a cordoned directory")


def _all_partitions(image: MetadataImage) -> Iterator[tuple[str, PartitionRegistration]]:
    for topic in image.topics.by_id.values():
        for number, partition in topic.partitions.items():
            yield f"{topic.name}-{number}", partition
