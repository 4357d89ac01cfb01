"""The records that say all that an image says, and no more.

`image_records(image)` is the content of a snapshot (B-S03): metadata.version first, then the rest in a fixed order; no NoOp, no
fence events, no deleted topic. Replaying them on the empty image gives the image again (the provenance comes from the snapshot's
name). Everything is written in the version that the image's metadata.version asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.image import METADATA_VERSION
from headrace.metadata.versions import (
    MINIMUM_METADATA_VERSION,
    has_controller_registration,
    has_delegation_tokens,
    has_scram,
    partition_version,
    register_broker_version,
)
from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.delegation_token_record import DelegationTokenRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.frame import encode_record
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from headrace.wire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from headrace.wire.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.core.ids import Uuid
    from headrace.metadata.cause import Cause
    from headrace.metadata.image import (
        BrokerRegistration,
        ClusterImage,
        ConfigsImage,
        ControllerRegistration,
        FeaturesImage,
        MetadataImage,
        PartitionRegistration,
        TopicsImage,
    )
    from headrace.wire.schema import Message


class VersionedRecord(NamedTuple):
    """A record and the version in which it is written; `cause` is that of this record and of those behind it, where another one begins."""

    record: Message
    version: int
    cause: Cause | None = None

    def encode(self) -> bytes:
        """The framed bytes (B-C00)."""
        return encode_record(self.record, self.version)


def snapshot_content(image: MetadataImage) -> Iterator[bytes]:
    """The framed records of a snapshot of `image`."""
    for versioned in image_records(image):
        yield versioned.encode()


def image_records(image: MetadataImage) -> Iterator[VersionedRecord]:
    """The fewest records that make `image` out of the empty one."""
    level = image.features.metadata_version or MINIMUM_METADATA_VERSION
    yield from _features(image.features)
    yield from _cluster(image.cluster, level)
    yield from _topics(image.topics, level)
    yield from _configs(image.configs)
    yield from _quotas_and_ids(image)
    yield from _security(image, level)


def _features(features: FeaturesImage) -> Iterator[VersionedRecord]:
    names = sorted(features.levels, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield VersionedRecord(FeatureLevelRecord(name=name, feature_level=features.levels[name]), 0)


def _cluster(cluster: ClusterImage, level: int) -> Iterator[VersionedRecord]:
    for broker_id in sorted(cluster.brokers):
        yield register_broker_record(cluster.brokers[broker_id], level)
    if has_controller_registration(level):
        for controller_id in sorted(cluster.controllers):
            yield register_controller_record(cluster.controllers[controller_id])


def register_broker_record(broker: BrokerRegistration, metadata_version: int) -> VersionedRecord:
    """The record that registers a broker exactly as it stands (B-C01)."""
    version = register_broker_version(metadata_version)
    record = RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker and version >= 2,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=tuple(
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.end_points
        ),
        features=tuple(
            BrokerFeature(
                name=name,
                min_supported_version=broker.features[name].min_supported_version,
                max_supported_version=broker.features[name].max_supported_version,
            )
            for name in sorted(broker.features)
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs if version >= 3 else (),
        cordoned_log_dirs=broker.cordoned_log_dirs if version >= 4 else None,
    )
    return VersionedRecord(record, version)


def register_controller_record(controller: ControllerRegistration) -> VersionedRecord:
    """The record that registers a controller exactly as it stands (KIP-919)."""
    record = RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in controller.end_points
        ),
        features=tuple(
            ControllerFeature(
                name=name,
                min_supported_version=controller.features[name].min_supported_version,
                max_supported_version=controller.features[name].max_supported_version,
            )
            for name in sorted(controller.features)
        ),
    )
    return VersionedRecord(record, 0)


def _topics(topics: TopicsImage, level: int) -> Iterator[VersionedRecord]:
    for name in sorted(topics.by_name):
        topic = topics.by_name[name]
        yield VersionedRecord(TopicRecord(name=topic.name, topic_id=topic.id), 0)
        for partition_id in sorted(topic.partitions):
            yield partition_record(topic.id, partition_id, topic.partitions[partition_id], level)


def partition_record(
    topic_id: Uuid, partition_id: int, partition: PartitionRegistration, metadata_version: int
) -> VersionedRecord:
    """The record that makes a partition exactly as it stands (B-C04)."""
    version = partition_version(metadata_version)
    has_elr = version >= 2
    record = PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if version >= 1 else (),
        eligible_leader_replicas=(partition.eligible_leader_replicas or None) if has_elr else None,
        last_known_elr=(partition.last_known_elr or None) if has_elr else None,
        first_leader_epoch=partition.first_leader_epoch,
    )
    return VersionedRecord(record, version)


def _configs(configs: ConfigsImage) -> Iterator[VersionedRecord]:
    for resource in sorted(configs.by_resource):
        settings = configs.by_resource[resource]
        for name in sorted(settings):
            yield VersionedRecord(
                ConfigRecord(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    name=name,
                    value=settings[name],
                ),
                0,
            )


def _quotas_and_ids(image: MetadataImage) -> Iterator[VersionedRecord]:
    for entity in sorted(image.client_quotas, key=repr):
        parts = tuple(EntityData(entity_type=p.entity_type, entity_name=p.entity_name) for p in entity)
        quotas = image.client_quotas[entity]
        for key in sorted(quotas):
            yield VersionedRecord(ClientQuotaRecord(entity=parts, key=key, value=quotas[key], remove=False), 0)
    if image.next_producer_id > 0:
        record = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
        yield VersionedRecord(record, 0)


def _security(image: MetadataImage, level: int) -> Iterator[VersionedRecord]:
    for acl_id in sorted(image.acls):
        acl = image.acls[acl_id]
        yield VersionedRecord(
            AccessControlEntryRecord(
                id=acl.id,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            ),
            0,
        )
    if has_scram(level):
        for key in sorted(image.scram):
            credential = image.scram[key]
            yield VersionedRecord(
                UserScramCredentialRecord(
                    name=credential.name,
                    mechanism=credential.mechanism,
                    salt=credential.salt,
                    stored_key=credential.stored_key,
                    server_key=credential.server_key,
                    iterations=credential.iterations,
                ),
                0,
            )
    if has_delegation_tokens(level):
        for token_id in sorted(image.delegation_tokens):
            token = image.delegation_tokens[token_id]
            yield VersionedRecord(
                DelegationTokenRecord(
                    owner=token.owner,
                    requester=token.requester,
                    renewers=token.renewers,
                    issue_timestamp=token.issue_timestamp,
                    max_timestamp=token.max_timestamp,
                    expiration_timestamp=token.expiration_timestamp,
                    token_id=token.token_id,
                ),
                0,
            )
