"""The state of the whole cluster after some offset of the metadata log.

A `MetadataImage` never changes. `metadata.replay` builds the next one from a record, sharing all that the record left alone
(persistent maps of `immutables`; docs/decisions tells why). Field names are those of the metadata records.

Iteration order of a map with text or uuid keys is not fixed; whoever builds records or answers from one sorts first.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from immutables import Map

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.values import value_class

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA_VERSION = "metadata.version"

NO_LEADER = -1
LEADER_RECOVERED = 0
LEADER_RECOVERING = 1

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


class ConfigResource(NamedTuple):
    """What a dynamic setting belongs to: `resource_type` as in ConfigRecord (2 topic, 4 broker; name "" = all brokers)."""

    resource_type: int
    resource_name: str


class EndPoint(NamedTuple):
    """Where a node listens; `security_protocol` 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL. `port` 0..65535."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    """The levels of one feature that a node can work with; both ends are inclusive."""

    min_supported_version: int
    max_supported_version: int


@value_class
class PartitionRegistration:
    """One partition as the controller decided it. `leader` is -1 when it has none (PartitionRecord, KIP-631)."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...] = ()
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int
    leader_recovery_state: int = LEADER_RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0
    first_leader_epoch: int = 0
    """Above 0 for a partition that was made where one of its number may have been removed: logs with older epochs are of that one (S3-78)."""

    def directory_of(self, broker_id: int) -> Uuid:
        """The log directory that holds the broker's replica; the zero uuid (`MIGRATING_DIRECTORY`) when nothing is known."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return ZERO_UUID


@value_class
class TopicImage:
    """One topic; `partitions` are numbered 0..n-1 without gaps."""

    name: str
    id: Uuid
    partitions: Map[int, PartitionRegistration] = field(default_factory=Map)

    def with_elr(self) -> list[int]:
        """The partitions that have an ELR or know who led last: those that a ClearElrRecord changes."""
        return sorted(
            number for number, each in self.partitions.items() if each.eligible_leader_replicas or each.last_known_elr
        )


@value_class
class TopicsImage:
    """All topics, by name and by id; both maps always hold the same topics."""

    by_name: Map[str, TopicImage] = field(default_factory=Map)
    by_id: Map[Uuid, TopicImage] = field(default_factory=Map)

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        """The partition, or None when the topic or the partition is unknown."""
        found = self.by_name.get(topic)
        return None if found is None else found.partitions.get(partition)

    def partition_by_id(self, topic_id: Uuid, partition: int) -> PartitionRegistration | None:
        """The partition, or None when the topic id or the partition is unknown."""
        found = self.by_id.get(topic_id)
        return None if found is None else found.partitions.get(partition)


@value_class
class BrokerRegistration:
    """A broker that registered. `broker_epoch` is the offset of its RegisterBrokerRecord."""

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    end_points: tuple[EndPoint, ...] = ()
    features: Map[str, FeatureRange] = field(default_factory=Map)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    cordoned_log_dirs: tuple[Uuid, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Neither fenced nor on its way out: replicas may be placed on it and may lead."""
        return not self.fenced and not self.in_controlled_shutdown

    def end_point(self, listener: str) -> EndPoint | None:
        """The end point with this listener name, or None."""
        return next((each for each in self.end_points if each.name == listener), None)


@value_class
class ControllerRegistration:
    """A controller that registered (RegisterControllerRecord, KIP-919)."""

    controller_id: int
    incarnation_id: Uuid
    zk_migration_ready: bool = False
    end_points: tuple[EndPoint, ...] = ()
    features: Map[str, FeatureRange] = field(default_factory=Map)


@value_class
class ClusterImage:
    """The registered brokers and controllers by id, fenced ones included."""

    brokers: Map[int, BrokerRegistration] = field(default_factory=Map)
    controllers: Map[int, ControllerRegistration] = field(default_factory=Map)

    def alive_brokers(self) -> Iterator[BrokerRegistration]:
        """The unfenced brokers in ascending id order."""
        for broker_id in sorted(self.brokers):
            broker = self.brokers[broker_id]
            if not broker.fenced:
                yield broker


@value_class
class FeaturesImage:
    """The finalized level of each feature; a feature that is not there has level 0."""

    levels: Map[str, int] = field(default_factory=Map)

    @property
    def metadata_version(self) -> int | None:
        """The finalized metadata.version (30 = 4.3-IV0); None before the first record."""
        return self.levels.get(METADATA_VERSION)

    def level(self, name: str) -> int:
        """The finalized level; 0 when the feature is off."""
        return self.levels.get(name, 0)


@value_class
class ConfigsImage:
    """The dynamic settings. A resource without settings is not in the map."""

    by_resource: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)

    def of(self, resource_type: int, resource_name: str) -> Map[str, str]:
        """The settings of one resource; empty when it has none."""
        return self.by_resource.get(ConfigResource(resource_type, resource_name), _NO_SETTINGS)

    def of_topic(self, topic: str) -> Map[str, str]:
        """The settings of a topic; empty when it has none."""
        return self.of(RESOURCE_TOPIC, topic)

    def of_broker(self, broker_id: int) -> Map[str, str]:
        """The settings of one broker, without those of all brokers."""
        return self.of(RESOURCE_BROKER, str(broker_id))

    def of_all_brokers(self) -> Map[str, str]:
        """The cluster-wide broker settings."""
        return self.of(RESOURCE_BROKER, "")


_NO_SETTINGS: Map[str, str] = Map()


@value_class
class AccessControlEntry:
    """One ACL; the numbers are those of AccessControlEntryRecord."""

    id: Uuid
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@value_class
class ScramCredential:
    """The stored half of a SCRAM password; `mechanism` 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@value_class
class DelegationToken:
    """A delegation token; the times are in milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


class QuotaEntityPart(NamedTuple):
    """One part of who a quota is for; `entity_name` None = the default entity of that type."""

    entity_type: str
    entity_name: str | None


QuotaEntity = tuple[QuotaEntityPart, ...]
"""The parts sorted by type."""


@value_class
class MetadataProvenance:
    """Up to where the image knows the log: the last offset contained, its epoch and its append time; -1 before the first."""

    last_contained_offset: int = -1
    last_contained_epoch: int = -1
    last_contained_log_time_ms: int = -1


@value_class
class MetadataImage:
    """Everything the metadata log says as of `provenance.last_contained_offset`."""

    provenance: MetadataProvenance = field(default_factory=MetadataProvenance)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    next_producer_id: int = 0
    """The first producer id that was not given out yet (ProducerIdsRecord)."""
    client_quotas: Map[QuotaEntity, Map[str, float]] = field(default_factory=Map)
    acls: Map[Uuid, AccessControlEntry] = field(default_factory=Map)
    scram: Map[tuple[str, int], ScramCredential] = field(default_factory=Map)
    """SCRAM credentials by (user, mechanism)."""
    delegation_tokens: Map[str, DelegationToken] = field(default_factory=Map)


EMPTY_IMAGE = MetadataImage()
