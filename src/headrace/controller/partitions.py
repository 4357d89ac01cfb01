"""Who leads a partition, who is in its ISR, and which record says so?

Every change of a partition goes through `change_partition`. Source: KIP-497, KIP-631, KIP-841; C5, C6, C9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.controller.decision import Decision
from headrace.core.error_code import ErrorCode
from headrace.core.ids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, TopicIdPartition, Uuid
from headrace.metadata.image import LEADER_RECOVERED, LEADER_RECOVERING, NO_LEADER, PartitionRegistration
from headrace.metadata.replay import NO_LEADER_CHANGE, merge
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import bumps_leader_epoch_on_isr_shrink, partition_version
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from headrace.controller.decision import Situation
    from headrace.metadata.image import ClusterImage, TopicImage


def default_directory(cluster: ClusterImage, broker_id: int) -> Uuid:
    """Where a new replica goes: the broker's only usable directory, else it decides itself (KIP-858, KIP-1066)."""
    broker = cluster.brokers.get(broker_id)
    if broker is None or not broker.log_dirs:
        return MIGRATING_DIRECTORY
    usable = [each for each in broker.log_dirs if each not in (broker.cordoned_log_dirs or ())]
    return usable[0] if len(usable) == 1 else UNASSIGNED_DIRECTORY


def new_partition(cluster: ClusterImage, replicas: tuple[int, ...]) -> PartitionRegistration | None:
    """A partition as it begins: the active replicas are in sync and the first of them leads; None when none is active."""
    isr = tuple(each for each in replicas if (broker := cluster.brokers.get(each)) is not None and broker.is_active)
    if not isr:
        return None
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(default_directory(cluster, each) for each in replicas),
        isr=isr,
        leader=isr[0],
    )


def elect(
    partition: PartitionRegistration,
    isr: tuple[int, ...],
    *,
    may_lead: Callable[[int], bool],
    allow_unclean: bool,
) -> tuple[int, bool]:
    """(leader, is_unclean): the present leader if it may go on, else the first in-sync replica that may lead.

    With `allow_unclean` the first live replica at all; -1 when there is none (C11).
    """
    if partition.leader in isr and may_lead(partition.leader):
        return partition.leader, False
    for replica in partition.replicas:
        if replica in isr and may_lead(replica):
            return replica, False
    if allow_unclean:
        for replica in partition.replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a partition should become. `may_lead` says of a broker whether it can; recovery state None = as it is."""

    isr: tuple[int, ...]
    may_lead: Callable[[int], bool]
    allow_unclean: bool = False
    leader_recovery_state: int | None = None


def change_partition(
    place: TopicIdPartition, before: PartitionRegistration, wish: Wish, *, metadata_version: int
) -> VersionedRecord | None:
    """The record that gives a partition the wished ISR and, if it needs one, a leader; None when nothing changes.

    An ISR never becomes empty: the last member stays, without leading (C7).
    """
    leader, is_unclean = elect(before, wish.isr, may_lead=wish.may_lead, allow_unclean=wish.allow_unclean)
    recovery = before.leader_recovery_state if wish.leader_recovery_state is None else wish.leader_recovery_state
    new_isr = wish.isr or before.isr
    if is_unclean:
        new_isr = (leader,)
        recovery = LEADER_RECOVERING
    shrank = not set(before.isr) <= set(new_isr)
    must_bump = shrank and bumps_leader_epoch_on_isr_shrink(metadata_version)
    has_new_leader = leader != before.leader or must_bump
    if not has_new_leader and new_isr == before.isr and recovery == before.leader_recovery_state:
        return None
    record = PartitionChangeRecord(
        partition_id=place.partition,
        topic_id=place.topic_id,
        isr=None if new_isr == before.isr else new_isr,
        leader=leader if has_new_leader else NO_LEADER_CHANGE,
        leader_recovery_state=-1 if recovery == before.leader_recovery_state else recovery,
    )
    return VersionedRecord(record, partition_version(metadata_version))


def leader_and_isr_updates(
    situation: Situation, places: Iterable[TopicIdPartition], *, remove: int = -1, add: int = -1
) -> Iterator[VersionedRecord]:
    """The changes that partitions need when broker `remove` leaves their ISR, or broker `add` becomes able to lead."""
    cluster = situation.image.cluster

    def may_lead(broker_id: int) -> bool:
        if broker_id == remove:
            return False
        broker = cluster.brokers.get(broker_id)
        is_alive = broker is not None and (broker_id == add or not broker.fenced)
        return broker is not None and is_alive and not broker.in_controlled_shutdown

    topic: TopicImage | None = None
    allow_unclean = False
    for place in places:
        if topic is None or topic.id != place.topic_id:
            topic = situation.image.topics.by_id[place.topic_id]
            allow_unclean = is_unclean_allowed(situation, topic.name)
        before = topic.partitions[place.partition]
        record = change_partition(
            place,
            before,
            Wish(
                isr=tuple(each for each in before.isr if each != remove),
                may_lead=may_lead,
                allow_unclean=allow_unclean,
            ),
            metadata_version=situation.metadata_version,
        )
        if record is not None:
            yield record


def is_unclean_allowed(situation: Situation, topic: str) -> bool:
    """`unclean.leader.election.enable` of a topic: its own, else the brokers', else this node's."""
    configs = situation.image.configs
    for settings in (configs.of_topic(topic), configs.of_broker(situation.config.node_id), configs.of_all_brokers()):
        value = settings.get("unclean.leader.election.enable")
        if value is not None:
            return value.strip().lower() == "true"
    return situation.config.unclean_leader_election_enable


def decide_alter_partition(situation: Situation, request: AlterPartitionRequest) -> Decision:
    """A leader asks for another ISR of its partitions (KIP-497). The caller checked the broker epoch."""
    records: list[VersionedRecord] = []
    topics: list[ResponseTopicData] = []
    for topic in request.topics:
        image = situation.image.topics.by_id.get(topic.topic_id)
        answers: list[ResponsePartitionData] = []
        for asked in topic.partitions:
            if image is None:
                answers.append(_failed(asked, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = image.partitions.get(asked.partition_index)
            new_isr = _proposed_isr(asked, situation.cause.api_version)
            error = _alter_error(situation, request.broker_id, partition, asked, new_isr)
            if partition is None or error is not ErrorCode.NONE:
                answers.append(_failed(asked, error))
                continue
            record = _isr_record(situation, image, partition, asked)
            if record is not None:
                records.append(record)
                assert isinstance(record.record, PartitionChangeRecord)
                partition = merge(partition, record.record)
            answers.append(
                ResponsePartitionData(
                    partition_index=asked.partition_index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=partition.isr,
                    leader_recovery_state=partition.leader_recovery_state,
                    partition_epoch=partition.partition_epoch,
                )
            )
        topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=tuple(answers)))
    return Decision(records=tuple(records), response=AlterPartitionResponse(topics=tuple(topics)))


def _proposed_isr(asked: RequestPartitionData, version: int) -> tuple[BrokerState, ...]:
    if version >= 3:
        return asked.new_isr_with_epochs
    return tuple(BrokerState(broker_id=each, broker_epoch=-1) for each in asked.new_isr)


def _isr_record(
    situation: Situation,
    topic: TopicImage,
    partition: PartitionRegistration,
    asked: RequestPartitionData,
) -> VersionedRecord | None:
    cluster = situation.image.cluster
    ordered = tuple(each.broker_id for each in _proposed_isr(asked, situation.cause.api_version))
    return change_partition(
        TopicIdPartition(topic.id, asked.partition_index),
        partition,
        Wish(
            isr=ordered,
            may_lead=lambda each: each in cluster.brokers and cluster.brokers[each].is_active,
            allow_unclean=is_unclean_allowed(situation, topic.name),
            leader_recovery_state=asked.leader_recovery_state,
        ),
        metadata_version=situation.metadata_version,
    )


def _failed(asked: RequestPartitionData, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=asked.partition_index, error_code=error)


def _alter_error(
    situation: Situation,
    broker_id: int,
    partition: PartitionRegistration | None,
    asked: RequestPartitionData,
    new_isr: tuple[BrokerState, ...],
) -> ErrorCode:
    """C9: why the change is refused. Epochs ahead of ours mean that this controller is no longer the active one."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return _isr_error(situation, partition, asked, new_isr)


def _isr_error(
    situation: Situation,
    partition: PartitionRegistration,
    asked: RequestPartitionData,
    new_isr: tuple[BrokerState, ...],
) -> ErrorCode:
    ids = [each.broker_id for each in new_isr]
    is_well_formed = len(set(ids)) == len(ids) and set(ids) <= set(partition.replicas) and partition.leader in ids
    if not is_well_formed or asked.leader_recovery_state not in (LEADER_RECOVERED, LEADER_RECOVERING):
        return ErrorCode.INVALID_REQUEST
    is_settled = len(ids) > 1 or partition.leader_recovery_state == LEADER_RECOVERED
    if asked.leader_recovery_state == LEADER_RECOVERING and is_settled:
        return ErrorCode.INVALID_REQUEST
    brokers = situation.image.cluster.brokers
    for member in new_isr:
        broker = brokers.get(member.broker_id)
        if broker is None or not broker.is_active or member.broker_epoch not in (-1, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
