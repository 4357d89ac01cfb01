"""Moves of a partition's replicas to other brokers (AlterPartitionReassignments, ListPartitionReassignments; KIP-455, KIP-860).

    new target    replicas = the target, then those to remove; the ISR is as it was, without what only the target before wanted
    goes on       added replicas join the ISR (AlterPartition); with the last one that is needed, that same change ends it (S2-08)
    cancelled     replicas = those before; added ones leave the ISR

One without added replicas ends at once. No replicas at all, where that is allowed, remove the last partition (S3-78). `partition_change` ends them; here they begin, are cancelled, and are listed. S2-06; C5, CL3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.controller.decision import Decision, check_size
from headrace.controller.isr_index import REASSIGNING, bit_numbers
from headrace.controller.partition_change import (
    Assignment,
    Election,
    Wish,
    assignment_of,
    change_partition,
    default_directory,
)
from headrace.controller.partitions import election_for, min_isr_for
from headrace.controller.topics import check_assignment
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicIdPartition
from headrace.metadata.image import LEADER_RECOVERING, NO_LEADER
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import has_directory_assignment, partition_version
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.controller.decision import Situation
    from headrace.metadata.image import PartitionRegistration, TopicImage

_KEEP_THEIR_PARTITIONS: Final = ("__consumer_offsets", "__transaction_state")
"""Which partition is whose is a hash over how many there are."""


def decide_reassignments(situation: Situation, request: AlterPartitionReassignmentsRequest) -> Decision:
    """Begin, change or cancel (replicas null) the reassignment of each named partition, each on its own."""
    if not request.topics:
        return Decision(response=AlterPartitionReassignmentsResponse())
    records: list[VersionedRecord] = []
    responses: list[ReassignableTopicResponse] = []
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            error: PeerError | None = None
            try:
                if (topic.name, asked.partition_index) in seen:
                    raise PeerError(ErrorCode.INVALID_REQUEST, "The partition is named twice.")
                seen.add((topic.name, asked.partition_index))
                record = _reassign(
                    situation,
                    (topic.name, asked.partition_index),
                    asked.replicas,
                    may_change_factor=request.allow_replication_factor_change,
                )
                records += [] if record is None else [record]
            except PeerError as refusal:
                error = refusal
            answers.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index,
                    error_code=ErrorCode.NONE if error is None else error.code,
                    error_message=None if error is None or error.message == error.code.name else error.message,
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(answers)))
    check_size(len(records))
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=tuple(responses),
    )
    return Decision(records=tuple(records), response=response)


def _reassign(
    situation: Situation, name: tuple[str, int], target: tuple[int, ...] | None, *, may_change_factor: bool
) -> VersionedRecord | None:
    """The record for one partition. Raises PeerError: why not."""
    topic = situation.image.topics.by_name.get(name[0])
    if topic is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name[0]}.")
    partition = topic.partitions.get(name[1])
    if partition is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name[0]}:{name[1]}.")
    if target == () and situation.config.partition_deletion_enable:
        return removal(situation, topic, name[1])
    if target is None:
        wish = cancellation(situation, topic, name[1], partition)
    else:
        check_assignment(situation, target, factor=None)
        if not may_change_factor:
            _check_factor(partition, target)
        wish = _new_target(situation, partition, target)
    return change_partition(
        TopicIdPartition(topic.id, name[1]),
        partition,
        wish,
        situation.eligible(),
        metadata_version=situation.metadata_version,
        min_isr=min_isr_for(situation, topic.name),
    )


def removal(situation: Situation, topic: TopicImage, number: int) -> VersionedRecord:
    """The last partition of a topic goes: a change to no replicas (S3-78, D-03). Raises PeerError(INVALID_PARTITIONS)."""
    count = len(topic.partitions)
    if topic.name in _KEEP_THEIR_PARTITIONS:
        raise PeerError(ErrorCode.INVALID_PARTITIONS, f"The partitions of {topic.name} cannot be removed.")
    if count == 1:
        raise PeerError(ErrorCode.INVALID_PARTITIONS, f"The only partition of {topic.name} cannot be removed.")
    if number != count - 1:
        raise PeerError(
            ErrorCode.INVALID_PARTITIONS,
            f"Only the last partition of {topic.name} can be removed: that is {count - 1}, not {number}.",
        )
    version = partition_version(situation.metadata_version)
    record = PartitionChangeRecord(
        partition_id=number,
        topic_id=topic.id,
        isr=(),
        leader=NO_LEADER,
        replicas=(),
        adding_replicas=(),
        removing_replicas=(),
        directories=() if has_directory_assignment(situation.metadata_version) else None,
    )
    return VersionedRecord(record, version)


def _check_factor(partition: PartitionRegistration, target: tuple[int, ...]) -> None:
    """KIP-860. Raises PeerError(INVALID_REPLICATION_FACTOR)."""
    present = len(assignment_of(partition).target)
    if present != len(target):
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(target)}",
        )


def _new_target(situation: Situation, partition: PartitionRegistration, target: tuple[int, ...]) -> Wish:
    """Measured from the replicas before any reassignment, so that a cancellation leads back to them (KIP-455, CL3).

    What an earlier reassignment was adding and this one does not want goes at once, unless nobody else is in sync or eligible.
    """
    dropped = set(partition.adding_replicas) - set(target)
    isr = tuple(each for each in partition.isr if each not in dropped)
    if not isr and (partition.isr or not set(partition.eligible_leader_replicas) - dropped):
        dropped, isr = set(), partition.isr
    present = set(partition.replicas) - dropped
    removing = tuple(sorted(present - set(target)))
    adding = tuple(sorted(set(target) - (present - set(partition.adding_replicas))))
    new = [each for each in adding if each not in partition.replicas]
    return Wish(
        isr=isr,
        assignment=Assignment((*target, *removing), adding, removing),
        directories={each: default_directory(situation.image.cluster, each) for each in new},
    )


def cancellation(situation: Situation, topic: TopicImage, number: int, partition: PartitionRegistration) -> Wish:
    """Back to the replicas before. Raises PeerError when nothing goes on, or when only added replicas are in sync (C11).

    Where nobody is in sync one of the ELR is enough (KIP-966).
    """
    assignment = assignment_of(partition)
    if not assignment.is_moving:
        raise PeerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    original = assignment.original
    isr = tuple(each for each in partition.isr if each not in assignment.adding)
    election = election_for(situation, topic.name)
    has_elr = min_isr_for(situation, topic.name) is not None
    has_eligible = has_elr and not partition.isr and set(partition.eligible_leader_replicas) & set(original)
    if isr or has_eligible:
        return Wish(isr=isr, election=election, assignment=Assignment(original))
    if election is not Election.UNCLEAN:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean "
            "leader election.",
        )
    if has_elr:  # whoever is there leads, as in any unclean election; nobody is in sync till then
        return Wish(isr=(), election=election, assignment=Assignment(original))
    return Wish(
        isr=original[:1],
        election=election,
        leader_recovery_state=LEADER_RECOVERING,
        assignment=Assignment(original),
    )


def list_reassignments(situation: Situation, request: ListPartitionReassignmentsRequest) -> Decision:
    """The reassignments that go on: all, or those of the named partitions."""
    topics: list[OngoingTopicReassignment] = []
    if request.topics is None:
        for topic_id, bits in situation.index.topics_with(REASSIGNING):
            topics += _ongoing(situation.image.topics.by_id[topic_id], list(bit_numbers(bits)))
    else:
        for asked in request.topics:
            known = situation.image.topics.by_name.get(asked.name)
            if known is not None:
                topics += _ongoing(known, list(asked.partition_indexes))
    return Decision(response=ListPartitionReassignmentsResponse(error_message=None, topics=tuple(topics)))


def _ongoing(topic: TopicImage, numbers: list[int]) -> Iterator[OngoingTopicReassignment]:
    found = []
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is not None and assignment_of(partition).is_moving:
            found.append(
                OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=partition.replicas,
                    adding_replicas=partition.adding_replicas,
                    removing_replicas=partition.removing_replicas,
                )
            )
    if found:
        yield OngoingTopicReassignment(name=topic.name, partitions=tuple(found))
