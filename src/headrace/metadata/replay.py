"""The meaning of each metadata record.

`replay(image, record)` is the one place that says it. It shares everything the record leaves alone, and raises `ReplayError` for
a record that does not fit the image (C18: the node stops; nothing is skipped). Source: KIP-631 and its successors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from immutables import Map

from headrace.core.ids import MIGRATING_DIRECTORY
from headrace.core.values import changed
from headrace.metadata.image import (
    RESOURCE_TOPIC,
    AccessControlEntry,
    BrokerRegistration,
    ConfigResource,
    ConfigsImage,
    ControllerRegistration,
    DelegationToken,
    EndPoint,
    FeatureRange,
    FeaturesImage,
    PartitionRegistration,
    QuotaEntityPart,
    ScramCredential,
    TopicImage,
    TopicsImage,
)
from headrace.metadata.shared_values import shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from immutables import MapMutation

    from headrace.metadata.image import ClusterImage, MetadataImage
    from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
    from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
    from headrace.wire.metadata_records.clear_elr_record import ClearElrRecord
    from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord
    from headrace.wire.metadata_records.config_record import ConfigRecord
    from headrace.wire.metadata_records.delegation_token_record import DelegationTokenRecord
    from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
    from headrace.wire.metadata_records.fence_broker_record import FenceBrokerRecord
    from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
    from headrace.wire.metadata_records.partition_record import PartitionRecord
    from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
    from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
    from headrace.wire.metadata_records.register_controller_record import RegisterControllerRecord
    from headrace.wire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from headrace.wire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
    from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
    from headrace.wire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
    from headrace.wire.metadata_records.topic_record import TopicRecord
    from headrace.wire.metadata_records.unfence_broker_record import UnfenceBrokerRecord
    from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
    from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
    from headrace.wire.schema import Message

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_STATE_CHANGE: Final = -1


class ReplayError(Exception):
    """A record that makes no sense where it stands: the log is damaged, or its writer had a bug (C18)."""


def replay(image: MetadataImage, record: Message) -> MetadataImage:
    """The image after `record`. Raises ReplayError."""
    api_key = record.SCHEMA.api_key
    meaning = _MEANINGS.get(api_key)
    if meaning is None:
        raise ReplayError(f"there is no metadata record of type {api_key}")
    return meaning(image, record)


def replay_all(image: MetadataImage, records: Iterable[Message]) -> MetadataImage:
    """The image after all `records`, in order; the same as `replay` one by one. Raises ReplayError.

    Topics and their partitions are replayed together as long as nothing else comes in between: a thousand partitions of new topics, or
    of a broker that is fenced, cost one new image and not a thousand.
    """
    run: _TopicsRun | None = None
    for record in records:
        kind = record.SCHEMA.api_key
        if kind in _TOPIC_KINDS:
            if run is None:
                run = _TopicsRun(image.topics)
            run.add(kind, record)
            continue
        if run is not None:
            image, run = changed(image, topics=run.finish()), None
        image = replay(image, record)
    return image if run is None else changed(image, topics=run.finish())


# Brokers and controllers


def _with_broker(image: MetadataImage, broker: BrokerRegistration) -> MetadataImage:
    brokers = image.cluster.brokers.set(broker.broker_id, broker)
    return changed(image, cluster=changed(image.cluster, brokers=brokers))


def _registered(cluster: ClusterImage, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The broker of this epoch; B-C01: a record for another epoch was decided on other facts."""
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        raise ReplayError(f"broker {broker_id} is not registered")
    if broker.broker_epoch != broker_epoch:
        raise ReplayError(f"broker {broker_id} has epoch {broker.broker_epoch}, the record is for {broker_epoch}")
    return broker


def _register_broker(image: MetadataImage, record: RegisterBrokerRecord) -> MetadataImage:
    return _with_broker(
        image,
        BrokerRegistration(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=Map(
                {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in record.features}
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            log_dirs=tuple(sorted(record.log_dirs)),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(sorted(record.cordoned_log_dirs)),
        ),
    )


def _unregister_broker(image: MetadataImage, record: UnregisterBrokerRecord) -> MetadataImage:
    broker = _registered(image.cluster, record.broker_id, record.broker_epoch)
    brokers = image.cluster.brokers.delete(broker.broker_id)
    return changed(image, cluster=changed(image.cluster, brokers=brokers))


def _fence_broker(image: MetadataImage, record: FenceBrokerRecord) -> MetadataImage:
    return _with_broker(image, changed(_registered(image.cluster, record.id, record.epoch), fenced=True))


def _unfence_broker(image: MetadataImage, record: UnfenceBrokerRecord) -> MetadataImage:
    return _with_broker(image, changed(_registered(image.cluster, record.id, record.epoch), fenced=False))


def _change_registration(image: MetadataImage, record: BrokerRegistrationChangeRecord) -> MetadataImage:
    broker = _registered(image.cluster, record.broker_id, record.broker_epoch)
    if record.fenced not in (-1, 0, 1):
        raise ReplayError(f"broker {record.broker_id}: fenced may be -1, 0 or 1, not {record.fenced}")
    if record.in_controlled_shutdown not in (0, 1):
        raise ReplayError(
            f"broker {record.broker_id}: in_controlled_shutdown may be 0 or 1, not {record.in_controlled_shutdown}"
        )
    return _with_broker(
        image,
        changed(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            log_dirs=tuple(sorted(record.log_dirs)) if record.log_dirs else broker.log_dirs,
            cordoned_log_dirs=(
                broker.cordoned_log_dirs
                if record.cordoned_log_dirs is None
                else tuple(sorted(record.cordoned_log_dirs))
            ),
        ),
    )


def _register_controller(image: MetadataImage, record: RegisterControllerRecord) -> MetadataImage:
    controller = ControllerRegistration(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        zk_migration_ready=record.zk_migration_ready,
        end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
        features=Map({f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in record.features}),
    )
    controllers = image.cluster.controllers.set(controller.controller_id, controller)
    return changed(image, cluster=changed(image.cluster, controllers=controllers))


# Topics and partitions


_TOPIC, _PARTITION, _PARTITION_CHANGE = 2, 3, 5
_TOPIC_KINDS: Final = (_TOPIC, _PARTITION, _PARTITION_CHANGE)


class _TopicsRun:
    """Records of topics and partitions, one behind the other, on maps that only become an image at the end."""

    def __init__(self, topics: TopicsImage) -> None:
        self._by_name = topics.by_name.mutate()
        self._by_id = topics.by_id.mutate()
        self._topic: TopicImage | None = None
        self._partitions: MapMutation[int, PartitionRegistration] | None = None

    def add(self, kind: int, record: Any) -> None:
        """One record. Raises ReplayError."""
        topic = self._topic
        if topic is None or topic.id != record.topic_id:
            self._close()
            if kind == _TOPIC:
                self._create(record)
                return
            topic = self._open(record)
        elif kind == _TOPIC:
            self._create(record)
        number = record.partition_id
        partitions = self._partitions
        assert partitions is not None
        if kind == _PARTITION:
            partitions[number] = _new_partition(record)
            return
        before = partitions.get(number)
        if before is None:
            raise ReplayError(f"{topic.name} has no partition {number}")
        if record.replicas == ():  # the last one goes, never the only one (S3-78)
            if not 0 < number == len(partitions) - 1:
                raise ReplayError(f"{topic.name}-{number} cannot be removed: it is not the last of several")
            del partitions[number]
            return
        partitions[number] = merge(before, record)

    def finish(self) -> TopicsImage:
        """All topics with them."""
        self._close()
        return TopicsImage(by_name=self._by_name.finish(), by_id=self._by_id.finish())

    def _create(self, record: TopicRecord) -> None:
        if record.name in self._by_name:
            raise ReplayError(f"topic {record.name} exists already")
        if record.topic_id in self._by_id:
            raise ReplayError(f"topic id {record.topic_id} belongs to {self._by_id[record.topic_id].name}")
        self._keep(TopicImage(name=record.name, id=record.topic_id))

    def _open(self, record: PartitionRecord | PartitionChangeRecord) -> TopicImage:
        topic = self._by_id.get(record.topic_id)
        if topic is None:
            raise ReplayError(f"partition {record.partition_id} of an unknown topic id {record.topic_id}")
        self._topic, self._partitions = topic, topic.partitions.mutate()
        return topic

    def _close(self) -> None:
        if self._topic is not None and self._partitions is not None:
            self._keep(TopicImage(name=self._topic.name, id=self._topic.id, partitions=self._partitions.finish()))
        self._topic = self._partitions = None

    def _keep(self, topic: TopicImage) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic


def _replay_topic(image: MetadataImage, record: Message) -> MetadataImage:
    run = _TopicsRun(image.topics)
    run.add(record.SCHEMA.api_key, record)
    return changed(image, topics=run.finish())


def _with_topic(image: MetadataImage, topic: TopicImage) -> MetadataImage:
    by_name, by_id = image.topics.by_name.set(topic.name, topic), image.topics.by_id.set(topic.id, topic)
    return changed(image, topics=TopicsImage(by_name=by_name, by_id=by_id))


def _new_partition(record: PartitionRecord) -> PartitionRegistration:
    """A record without directories is of before KIP-858 (B-C04)."""
    replicas = shared(record.replicas)
    return PartitionRegistration(
        replicas=replicas,
        directories=shared(record.directories or (MIGRATING_DIRECTORY,) * len(replicas)),
        isr=replicas if record.isr == replicas else shared(record.isr),
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        eligible_leader_replicas=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        first_leader_epoch=record.first_leader_epoch,
    )


def merge(before: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """An absent field is unchanged; the partition epoch rises always, the leader epoch when a leader is named (B-C06)."""
    replicas, directories = before.replicas, before.directories
    isr, leader, leader_epoch = before.isr, before.leader, before.leader_epoch
    if record.replicas is not None:
        replicas = shared(record.replicas)
        directories = tuple(before.directory_of(replica) for replica in replicas)
    if record.directories is not None:
        directories = record.directories
    if directories is not before.directories:
        directories = shared(directories)
    if record.isr is not None:
        isr = replicas if record.isr == replicas else shared(record.isr)
    if record.leader != NO_LEADER_CHANGE:
        leader = record.leader
        leader_epoch += 1
    recovery, removing, adding = record.leader_recovery_state, record.removing_replicas, record.adding_replicas
    elr, last_known = record.eligible_leader_replicas, record.last_known_elr
    return PartitionRegistration(
        replicas=replicas,
        directories=directories,
        isr=isr,
        removing_replicas=before.removing_replicas if removing is None else removing,
        adding_replicas=before.adding_replicas if adding is None else adding,
        eligible_leader_replicas=before.eligible_leader_replicas if elr is None else elr,
        last_known_elr=before.last_known_elr if last_known is None else last_known,
        leader=leader,
        leader_recovery_state=before.leader_recovery_state if recovery == NO_RECOVERY_STATE_CHANGE else recovery,
        leader_epoch=leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        first_leader_epoch=before.first_leader_epoch,
    )


def _remove_topic(image: MetadataImage, record: RemoveTopicRecord) -> MetadataImage:
    """The topic, all its partitions and its settings (B-C08)."""
    topic = image.topics.by_id.get(record.topic_id)
    if topic is None:
        raise ReplayError(f"cannot remove the unknown topic id {record.topic_id}")
    topics = TopicsImage(
        by_name=image.topics.by_name.delete(topic.name), by_id=image.topics.by_id.delete(record.topic_id)
    )
    configs = image.configs
    resource = ConfigResource(RESOURCE_TOPIC, topic.name)
    if resource in configs.by_resource:
        configs = ConfigsImage(by_resource=configs.by_resource.delete(resource))
    return changed(image, topics=topics, configs=configs)


def _clear_elr(image: MetadataImage, record: ClearElrRecord) -> MetadataImage:
    """KIP-966: forget the eligible leader replicas of one topic, or of all when the name is empty."""
    if record.topic_name and record.topic_name not in image.topics.by_name:
        raise ReplayError(f"cannot clear the ELR of the unknown topic {record.topic_name}")
    names = [record.topic_name] if record.topic_name else sorted(image.topics.by_name)
    for name in names:
        topic = image.topics.by_name[name]
        for partition_id in topic.with_elr():
            before = topic.partitions[partition_id]
            after = changed(
                before,
                eligible_leader_replicas=(),
                last_known_elr=(),
                partition_epoch=before.partition_epoch + 1,
            )
            topic = changed(topic, partitions=topic.partitions.set(partition_id, after))
        image = _with_topic(image, topic)
    return image


# Settings, features, producer ids


def _set_config(image: MetadataImage, record: ConfigRecord) -> MetadataImage:
    resource = ConfigResource(record.resource_type, record.resource_name)
    by_resource = image.configs.by_resource
    settings: Map[str, str] = by_resource.get(resource, Map())
    if record.value is not None:
        settings = settings.set(record.name, record.value)
    elif record.name in settings:
        settings = settings.delete(record.name)
    if settings:
        by_resource = by_resource.set(resource, settings)
    elif resource in by_resource:
        by_resource = by_resource.delete(resource)
    return changed(image, configs=ConfigsImage(by_resource=by_resource))


def _set_feature_level(image: MetadataImage, record: FeatureLevelRecord) -> MetadataImage:
    levels = image.features.levels
    if record.feature_level != 0:
        levels = levels.set(record.name, record.feature_level)
    elif record.name in levels:
        levels = levels.delete(record.name)
    return changed(image, features=FeaturesImage(levels=levels))


def _set_producer_ids(image: MetadataImage, record: ProducerIdsRecord) -> MetadataImage:
    if record.next_producer_id < image.next_producer_id:
        raise ReplayError(f"next producer id {record.next_producer_id} is below {image.next_producer_id}")
    return changed(image, next_producer_id=record.next_producer_id)


def _set_client_quota(image: MetadataImage, record: ClientQuotaRecord) -> MetadataImage:
    entity = tuple(sorted((QuotaEntityPart(e.entity_type, e.entity_name) for e in record.entity), key=lambda e: e[0]))
    quotas: Map[str, float] = image.client_quotas.get(entity, Map())
    if not record.remove:
        quotas = quotas.set(record.key, record.value)
    elif record.key in quotas:
        quotas = quotas.delete(record.key)
    else:
        raise ReplayError(f"quota {record.key} of {entity} cannot be removed: it is not set")
    if quotas:
        return changed(image, client_quotas=image.client_quotas.set(entity, quotas))
    return changed(image, client_quotas=image.client_quotas.delete(entity))


# Security


def _add_acl(image: MetadataImage, record: AccessControlEntryRecord) -> MetadataImage:
    acl = AccessControlEntry(
        id=record.id,
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )
    return changed(image, acls=image.acls.set(acl.id, acl))


def _remove_acl(image: MetadataImage, record: RemoveAccessControlEntryRecord) -> MetadataImage:
    if record.id not in image.acls:
        raise ReplayError(f"cannot remove the unknown ACL {record.id}")
    return changed(image, acls=image.acls.delete(record.id))


def _set_scram(image: MetadataImage, record: UserScramCredentialRecord) -> MetadataImage:
    credential = ScramCredential(
        name=record.name,
        mechanism=record.mechanism,
        salt=bytes(record.salt),
        stored_key=bytes(record.stored_key),
        server_key=bytes(record.server_key),
        iterations=record.iterations,
    )
    return changed(image, scram=image.scram.set((record.name, record.mechanism), credential))


def _remove_scram(image: MetadataImage, record: RemoveUserScramCredentialRecord) -> MetadataImage:
    key = (record.name, record.mechanism)
    if key not in image.scram:
        raise ReplayError(f"cannot remove the unknown SCRAM credential of {record.name}, mechanism {record.mechanism}")
    return changed(image, scram=image.scram.delete(key))


def _set_token(image: MetadataImage, record: DelegationTokenRecord) -> MetadataImage:
    token = DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp=record.issue_timestamp,
        max_timestamp=record.max_timestamp,
        expiration_timestamp=record.expiration_timestamp,
    )
    return changed(image, delegation_tokens=image.delegation_tokens.set(token.token_id, token))


def _remove_token(image: MetadataImage, record: RemoveDelegationTokenRecord) -> MetadataImage:
    if record.token_id not in image.delegation_tokens:
        raise ReplayError(f"cannot remove the unknown delegation token {record.token_id}")
    return changed(image, delegation_tokens=image.delegation_tokens.delete(record.token_id))


def _nothing(image: MetadataImage, _record: Message) -> MetadataImage:
    """NoOp (B-C16), ZkMigrationState (B-C17), and the bounds of metadata transactions, which the loader obeys (B-C18)."""
    return image


_MEANINGS: Final[dict[int, Callable[[MetadataImage, Any], MetadataImage]]] = {
    0: _register_broker,
    1: _unregister_broker,
    2: _replay_topic,
    3: _replay_topic,
    4: _set_config,
    5: _replay_topic,
    7: _fence_broker,
    8: _unfence_broker,
    9: _remove_topic,
    10: _set_token,
    11: _set_scram,
    12: _set_feature_level,
    14: _set_client_quota,
    15: _set_producer_ids,
    17: _change_registration,
    18: _add_acl,
    19: _remove_acl,
    20: _nothing,
    21: _nothing,
    22: _remove_scram,
    23: _nothing,
    24: _nothing,
    25: _nothing,
    26: _remove_token,
    27: _register_controller,
    28: _clear_elr,
}
