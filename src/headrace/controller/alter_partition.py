"""Changes of the ISR that leaders ask for (AlterPartition, KIP-497, KIP-841, KIP-903; C9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.controller.decision import Decision, check_broker_epoch
from headrace.controller.partition_change import Wish, change_partition
from headrace.controller.partitions import election_for, min_isr_for
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition
from headrace.metadata.image import LEADER_RECOVERED, LEADER_RECOVERING
from headrace.metadata.replay import merge
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
    from headrace.metadata.image import PartitionRegistration, TopicImage
    from headrace.metadata.snapshot import VersionedRecord


def decide_alter_partition(situation: Situation, request: AlterPartitionRequest) -> Decision:
    """Each partition on its own, however many a leader has to change at once (when a broker with ten thousand replicas comes back).

    Raises PeerError(STALE_BROKER_EPOCH): the request is of an older incarnation (C8).
    """
    check_broker_epoch(situation, request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    topics: list[ResponseTopicData] = []
    for topic in request.topics:
        image = situation.image.topics.by_id.get(topic.topic_id)
        answers: list[ResponsePartitionData] = []
        changed: set[int] = set()
        for asked in topic.partitions:
            is_repeated = asked.partition_index in changed
            answer, record = _decide_one(situation, request.broker_id, image, asked, is_repeated=is_repeated)
            answers.append(answer)
            if record is not None:
                changed.add(asked.partition_index)
                records.append(record)
        topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=tuple(answers)))
    return Decision(records=tuple(records), response=AlterPartitionResponse(topics=tuple(topics)), is_atomic=False)


def _decide_one(
    situation: Situation, broker_id: int, topic: TopicImage | None, asked: RequestPartitionData, *, is_repeated: bool
) -> tuple[ResponsePartitionData, VersionedRecord | None]:
    """The answer for one partition, and the record if it changes."""
    if topic is None:
        return _failed(asked, ErrorCode.UNKNOWN_TOPIC_ID), None
    partition = topic.partitions.get(asked.partition_index)
    error = alter_error(situation, broker_id, partition, asked)
    if partition is None or error is not ErrorCode.NONE:
        return _failed(asked, error), None
    if is_repeated:  # it was changed a moment ago by this request
        return _failed(asked, ErrorCode.INVALID_UPDATE_VERSION), None
    record = _isr_record(situation, topic, partition, asked)
    if record is not None:
        assert isinstance(record.record, PartitionChangeRecord)
        partition = merge(partition, record.record)
        if partition.leader != broker_id:  # the change ended a reassignment that takes the leader away (S2-08)
            return _failed(asked, ErrorCode.NEW_LEADER_ELECTED), record
    answer = ResponsePartitionData(
        partition_index=asked.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
    return answer, record


def _proposed_isr(asked: RequestPartitionData, version: int) -> tuple[BrokerState, ...]:
    if version >= 3:
        return asked.new_isr_with_epochs
    return tuple(BrokerState(broker_id=each, broker_epoch=-1) for each in asked.new_isr)


def _isr_record(
    situation: Situation, topic: TopicImage, partition: PartitionRegistration, asked: RequestPartitionData
) -> VersionedRecord | None:
    ordered = tuple(each.broker_id for each in _proposed_isr(asked, situation.cause.api_version))
    return change_partition(
        TopicIdPartition(topic.id, asked.partition_index),
        partition,
        Wish(
            isr=ordered,
            election=election_for(situation, topic.name),
            leader_recovery_state=asked.leader_recovery_state,
        ),
        situation.eligible(),
        metadata_version=situation.metadata_version,
        min_isr=min_isr_for(situation, topic.name),
    )


def _failed(asked: RequestPartitionData, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=asked.partition_index, error_code=error)


def alter_error(
    situation: Situation, broker_id: int, partition: PartitionRegistration | None, asked: RequestPartitionData
) -> ErrorCode:
    """Why the change is refused (C9). Epochs ahead of ours mean that this controller is no longer the active one."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = epoch_error(broker_id, partition, asked)
    if error is not ErrorCode.NONE:
        return error
    new_isr = _proposed_isr(asked, situation.cause.api_version)
    ids = [each.broker_id for each in new_isr]
    is_well_formed = len(set(ids)) == len(ids) and set(ids) <= set(partition.replicas) and partition.leader in ids
    if not is_well_formed or asked.leader_recovery_state not in (LEADER_RECOVERED, LEADER_RECOVERING):
        return ErrorCode.INVALID_REQUEST
    is_settled = len(ids) > 1 or partition.leader_recovery_state == LEADER_RECOVERED
    if asked.leader_recovery_state == LEADER_RECOVERING and is_settled:
        return ErrorCode.INVALID_REQUEST
    if any(is_ineligible(situation, member) for member in new_isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def epoch_error(broker_id: int, partition: PartitionRegistration, asked: RequestPartitionData) -> ErrorCode:
    """Only the present leader, and only with the leader epoch and partition epoch that the controller has (C9)."""
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


def is_ineligible(situation: Situation, member: BrokerState) -> bool:
    """KIP-841, KIP-903: not registered, fenced, stopping, or another incarnation than the one the leader saw (-1 = it did not look)."""
    broker = situation.image.cluster.brokers.get(member.broker_id)
    return (
        broker is None
        or not broker.is_active
        or member.broker_id in situation.leaving
        or member.broker_epoch not in (-1, broker.broker_epoch)
    )
