"""More partitions for a topic (CreatePartitions, KIP-195; B72)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.controller.decision import Decision, check_partitions, check_size
from headrace.controller.topics import assigned_partition, placed_partitions
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.snapshot import VersionedRecord, partition_record
from headrace.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from headrace.controller.decision import Situation
    from headrace.metadata.image import PartitionRegistration

_LARGEST_EPOCH: Final = 2**31 - 2


def decide_create_partitions(situation: Situation, request: CreatePartitionsRequest) -> Decision:
    """Add partitions to each topic that may get them."""
    times = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in times.items()
        if count > 1
    ]
    records: list[VersionedRecord] = []
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        try:
            records += _added(situation, topic, room=len(records))
            results.append(CreatePartitionsTopicResult(name=topic.name))
        except PeerError as refusal:
            if refusal.code is ErrorCode.POLICY_VIOLATION:
                raise
            is_unknown = refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = None if is_unknown else refusal.message
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=refusal.code, error_message=message))
    response = CreatePartitionsResponse(results=tuple(results))
    return Decision(records=() if request.validate_only else tuple(records), response=response)


def _added(situation: Situation, asked: CreatePartitionsTopic, *, room: int) -> list[VersionedRecord]:
    topic = situation.image.topics.by_name.get(asked.name)
    if topic is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if asked.count == present:
        raise PeerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise PeerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an increase.",
        )
    check_partitions(asked.count - present)
    check_size(room + asked.count - present)
    partitions = _new_partitions(situation, asked, present=present, factor=len(topic.partitions[0].replicas))
    first_epoch = first_leader_epoch(situation)
    return [
        partition_record(
            topic.id,
            present + number,
            replace(partition, leader_epoch=first_epoch, first_leader_epoch=first_epoch),
            situation.metadata_version,
        )
        for number, partition in enumerate(partitions)
    ]


def first_leader_epoch(situation: Situation) -> int:
    """0, or where a partition of the number may have been removed, an epoch above all that such a one can have had (S3-78).

    Each leader epoch took a record of the log, so the offset of the next record is above them.
    """
    return min(situation.next_offset, _LARGEST_EPOCH) if situation.config.partition_deletion_enable else 0


def _new_partitions(
    situation: Situation, asked: CreatePartitionsTopic, *, present: int, factor: int
) -> list[PartitionRegistration]:
    additional = asked.count - present
    if asked.assignments is None:
        return placed_partitions(situation, additional, factor)
    if len(asked.assignments) != additional:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} assignment(s) "
            "were specified.",
        )
    return [
        assigned_partition(situation, assignment.broker_ids, number=present + number, factor=factor)
        for number, assignment in enumerate(asked.assignments)
    ]
