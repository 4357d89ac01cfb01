"""Topics that come and go (CreateTopics, DeleteTopics, KIP-4, KIP-516, KIP-525; B26, B27, B72, S1-36).

A creation is one batch TopicRecord + ConfigRecords + PartitionRecords: it exists whole or not at all (S3-62). Each topic of a request is
decided on its own; a refused one leaves the others alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from immutables import Map

from headrace.config.dynamic import effective_config
from headrace.config.rules import check_topic_name
from headrace.controller.configs import new_topic_config_records
from headrace.controller.decision import Decision, check_partitions, check_size
from headrace.controller.partitions import new_partition
from headrace.controller.placement import UsableBroker, place_replicas
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.metadata.config_view import ConfigView
from headrace.metadata.image import RESOURCE_TOPIC, ConfigResource, ConfigsImage
from headrace.metadata.snapshot import VersionedRecord, partition_record
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.controller.decision import Situation
    from headrace.metadata.image import PartitionRegistration

METADATA_TOPIC = "__cluster_metadata"
_ShownConfigs: TypeAlias = "dict[tuple[tuple[str, str], ...], tuple[CreatableTopicConfigs, ...]]"
"""A new topic's own settings, in order -> all settings that it will have."""


# Creation


def decide_create_topics(situation: Situation, request: CreateTopicsRequest) -> Decision:
    """Create each topic that may be created. Raises PeerError(POLICY_VIOLATION) when they are too many records (B-C22)."""
    times = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if times[topic.name] == 1 and topic.name != METADATA_TOPIC]
    check_partitions(sum(_asked_partitions(situation, topic) for topic in once))
    records: list[VersionedRecord] = []
    results: list[CreatableTopicResult] = []
    prohibited: list[CreatableTopicResult] = []
    shown: _ShownConfigs = {}
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        if topic.name == METADATA_TOPIC:
            prohibited.append(
                _failed(
                    topic.name,
                    PeerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."),
                )
            )
            continue
        try:
            new_records, result = _create(situation, topic, room=len(records), shown=shown)
        except PeerError as refusal:
            if refusal.code is ErrorCode.POLICY_VIOLATION:
                raise
            results.append(_failed(topic.name, refusal))
        else:
            records += new_records
            results.append(result)
    duplicates = [
        _failed(name, PeerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in times.items()
        if count > 1
    ]
    response = CreateTopicsResponse(topics=(*results, *duplicates, *prohibited))
    return Decision(records=() if request.validate_only else tuple(records), response=response)


def _asked_partitions(situation: Situation, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return situation.config.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _failed(name: str, error: PeerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _create(
    situation: Situation, topic: CreatableTopic, *, room: int, shown: _ShownConfigs
) -> tuple[list[VersionedRecord], CreatableTopicResult]:
    """Raises PeerError: why the topic cannot be created. `shown` spares topics with equal settings the same work."""
    _check_name(situation, topic.name)
    configs = _given_configs(topic)
    config_records = new_topic_config_records(situation, topic.name, configs) if configs else []
    partitions = _new_partitions(situation, topic, room=room + 1 + len(config_records))
    topic_id = situation.new_uuid()
    while topic_id in situation.image.topics.by_id:
        topic_id = situation.new_uuid()
    records = [VersionedRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0), *config_records]
    records += [
        partition_record(topic_id, number, partition, situation.metadata_version)
        for number, partition in enumerate(partitions)
    ]
    own = tuple(sorted(configs.items()))
    if own not in shown:
        shown[own] = _effective_configs(situation, topic.name, configs)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=shown[own],
    )
    return records, result


def _check_name(situation: Situation, name: str) -> None:
    if name in situation.image.topics.by_name:
        raise PeerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    other = situation.names.colliding(name)
    if other is not None:
        raise PeerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _given_configs(topic: CreatableTopic) -> dict[str, str]:
    nulls = [each.name for each in topic.configs if each.value is None]
    if nulls:
        raise PeerError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    return {each.name: each.value for each in topic.configs if each.value is not None}


def _new_partitions(situation: Situation, topic: CreatableTopic, *, room: int) -> list[PartitionRegistration]:
    if topic.assignments:
        return _assigned_partitions(situation, topic, room=room)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise PeerError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = situation.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = situation.config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    check_size(room + count)
    try:
        return placed_partitions(situation, count, factor)
    except PeerError as refusal:
        message = f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        raise PeerError(refusal.code, message) from None


def placed_partitions(situation: Situation, count: int, factor: int) -> list[PartitionRegistration]:
    """`count` new partitions of `factor` replicas where the placement puts them. Raises PeerError(INVALID_REPLICATION_FACTOR)."""
    cluster = situation.image.cluster
    placed = place_replicas(usable_brokers(situation), partitions=count, replication_factor=factor, rng=situation.rng)
    eligible = situation.eligible()
    begun = {replicas: new_partition(cluster, eligible, replicas) for replicas in dict.fromkeys(placed)}
    found = [each for each in map(begun.__getitem__, placed) if each is not None]
    assert len(found) == count, "the first replica of each is on a live broker"
    return found


def usable_brokers(situation: Situation) -> Iterator[UsableBroker]:
    """The brokers that may get new replicas: not stopping, and with a directory that takes them (KIP-841, KIP-1066)."""
    cluster = situation.image.cluster
    for broker_id in sorted(cluster.brokers):
        broker = cluster.brokers[broker_id]
        cordoned = broker.cordoned_log_dirs or ()
        is_full = bool(broker.log_dirs) and all(each in cordoned for each in broker.log_dirs)
        if not broker.in_controlled_shutdown and not is_full and broker_id not in situation.retiring:
            yield UsableBroker(broker_id, broker.rack or "", broker.fenced or broker_id in situation.leaving)


def _assigned_partitions(situation: Situation, topic: CreatableTopic, *, room: int) -> list[PartitionRegistration]:
    """The assignment as given (B72)."""
    if topic.replication_factor != -1:
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    check_size(room + len(topic.assignments))
    found: dict[int, PartitionRegistration] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in found:
            raise PeerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {number}",
            )
        found[number] = assigned_partition(situation, assignment.broker_ids, number=number, factor=factor)
        factor = len(assignment.broker_ids)
    if sorted(found) != list(range(len(found))):
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [found[number] for number in range(len(found))]


def assigned_partition(
    situation: Situation, replicas: Sequence[int], *, number: int, factor: int | None
) -> PartitionRegistration:
    """One new partition with these replicas, as many as the others have. Raises PeerError(INVALID_REPLICA_ASSIGNMENT)."""
    check_assignment(situation, replicas, factor=factor)
    partition = new_partition(situation.image.cluster, situation.eligible(), tuple(replicas))
    if partition is None:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown.",
        )
    return partition


def check_assignment(situation: Situation, replicas: Sequence[int], *, factor: int | None) -> None:
    """Raises PeerError(INVALID_REPLICA_ASSIGNMENT) (B72)."""
    if not replicas:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    previous: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in situation.image.cluster.brokers:
            raise PeerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if broker_id in situation.retiring:
            raise PeerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but it is just being decommissioned.",
            )
        if broker_id == previous:
            raise PeerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {broker_id} more than once.",
            )
        previous = broker_id
    if factor is not None and len(replicas) != factor:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s).",
        )


def _effective_configs(
    situation: Situation, topic: str, configs: Mapping[str, str]
) -> tuple[CreatableTopicConfigs, ...]:
    """KIP-525: what the new topic's settings will be."""
    images = situation.image.configs
    node = situation.config
    own = Map(configs)
    by_resource = images.by_resource.set(ConfigResource(RESOURCE_TOPIC, topic), own) if own else images.by_resource
    view = ConfigView(
        started_with=node,
        current=effective_config(node, images.of_all_brokers(), images.of_broker(node.node_id)),
        configs=ConfigsImage(by_resource=by_resource),
        shows_synonyms=False,
    )
    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=None if entry.is_sensitive else entry.value,
            read_only=entry.read_only,
            config_source=entry.config_source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in view.topic(topic, None)
    )


# Deletion


def decide_delete_topics(situation: Situation, request: DeleteTopicsRequest) -> Decision:
    """Delete topics by name or id: one record a topic, however many partitions it has (S1-36)."""
    version = situation.cause.api_version
    if not situation.config.delete_topic_enable:
        if version < 3:
            raise PeerError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise PeerError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    results: list[DeletableTopicResult] = []
    names, ids = _asked_for(request, results)
    chosen = _by_id(situation, ids, results)
    _add_by_name(situation, names, ids, chosen, results)
    records = [VersionedRecord(RemoveTopicRecord(topic_id=topic_id), 0) for topic_id in chosen]
    check_size(len(records))
    results += [
        DeletableTopicResult(name=name, topic_id=topic_id, error_message=None) for topic_id, name in chosen.items()
    ]
    return Decision(records=tuple(records), response=DeleteTopicsResponse(responses=tuple(results)))


def _asked_for(request: DeleteTopicsRequest, results: list[DeletableTopicResult]) -> tuple[Counter[str], Counter[Uuid]]:
    """How often each name and each id is named; what is neither or both is refused."""
    names: Counter[str] = Counter(request.topic_names)
    ids: Counter[Uuid] = Counter()
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            _refuse(results, None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        else:
            message = "You may not specify both topic name and topic id."
            _refuse(results, topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, message)
    for name in [name for name, count in names.items() if count > 1]:
        _refuse(results, name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    for topic_id in [topic_id for topic_id, count in ids.items() if count > 1]:
        _refuse(results, None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    return names, ids


def _by_id(situation: Situation, ids: Counter[Uuid], results: list[DeletableTopicResult]) -> dict[Uuid, str]:
    chosen: dict[Uuid, str] = {}
    for topic_id, count in ids.items():
        if count > 1:
            continue
        topic = situation.image.topics.by_id.get(topic_id)
        if topic is None:
            _refuse(results, None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        else:
            chosen[topic_id] = topic.name
    return chosen


def _add_by_name(
    situation: Situation,
    names: Counter[str],
    ids: Counter[Uuid],
    chosen: dict[Uuid, str],
    results: list[DeletableTopicResult],
) -> None:
    """Add the topics that are named; a name whose id was given as well takes both out."""
    for name, count in names.items():
        if count > 1:
            continue
        topic = situation.image.topics.by_name.get(name)
        if topic is None:
            message = "This server does not host this topic-partition."
            _refuse(results, name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        elif topic.id in ids:
            chosen.pop(topic.id, None)
            message = "The provided topic name maps to an ID that was already supplied."
            _refuse(results, name, topic.id, ErrorCode.INVALID_REQUEST, message)
        else:
            chosen[topic.id] = name


def _refuse(
    results: list[DeletableTopicResult], name: str | None, topic_id: Uuid, code: ErrorCode, message: str
) -> None:
    results.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message))
