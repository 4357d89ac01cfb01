"""The directory of a broker in which each of its replicas lies (AssignReplicasToDirs, KIP-858)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.controller.decision import Decision, Moves, check_broker_epoch
from headrace.controller.eligibility import NOBODY
from headrace.controller.partition_change import Wish, change_partition, note_directories
from headrace.controller.partitions import leader_and_isr_updates, min_isr_for
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import LOST_DIRECTORY, TopicIdPartition, is_reserved_uuid
from headrace.metadata.versions import has_directory_assignment
from headrace.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.controller.decision import Situation
    from headrace.core.ids import Uuid
    from headrace.metadata.image import BrokerRegistration, TopicImage
    from headrace.metadata.snapshot import VersionedRecord


def decide_assignment_to_directories(situation: Situation, request: AssignReplicasToDirsRequest) -> Decision:
    """Note where the broker put its replicas; those in a directory that is offline lose their ISR places at once (C25).

    Raises PeerError: UNSUPPORTED_VERSION below 3.7-IV2, STALE_BROKER_EPOCH for another incarnation (C8).
    """
    if not has_directory_assignment(situation.metadata_version):
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = check_broker_epoch(situation, request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    moves: list[Moves] = []
    directories: list[ResponseDirectoryData] = []
    for directory in request.directories:
        offline: list[TopicIdPartition] = []
        is_offline = _is_offline(broker, directory.id)
        topics = []
        for asked in directory.topics:
            topic = situation.image.topics.by_id.get(asked.topic_id)
            answers = []
            for number in (each.partition_index for each in asked.partitions):
                error = _error(topic, number, request.broker_id)
                answers.append(ResponsePartitionData(partition_index=number, error_code=error))
                if topic is not None and error is ErrorCode.NONE:
                    place = TopicIdPartition(topic.id, number)
                    if is_offline:
                        offline.append(place)
                    else:
                        records += _assigned(situation, topic, place, (broker, directory.id))
            topics.append(ResponseTopicData(topic_id=asked.topic_id, partitions=tuple(answers)))
        directories.append(ResponseDirectoryData(id=directory.id, topics=tuple(topics)))
        if offline:
            moves.append(_leaving(broker, directory.id, offline))
    return Decision(
        records=tuple(records),
        response=AssignReplicasToDirsResponse(directories=tuple(directories)),
        moves=tuple(moves),
        is_atomic=False,
    )


def _leaving(broker: BrokerRegistration, directory: Uuid, places: list[TopicIdPartition]) -> Moves:
    """Where the replicas are and that they do not lead there, in one slice: while it waits for others, neither is so."""
    return Moves(
        places=places,
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        change=partial(_leave, where=(broker.broker_id, directory)),
        lost=(directory,),
    )


def _leave(
    situation: Situation, places: Iterable[TopicIdPartition], *, where: tuple[int, Uuid]
) -> Iterator[VersionedRecord]:
    """Two records a partition, as Kafka's controller writes them: each raises the partition epoch."""
    there = list(places)
    for place in there:
        partition = situation.image.topics.partition_by_id(place.topic_id, place.partition)
        if partition is not None:
            record = note_directories(place, partition, dict([where]), metadata_version=situation.metadata_version)
            if record is not None:
                yield record
    yield from leader_and_isr_updates(situation, there, remove=where[0])


def _is_offline(broker: BrokerRegistration, directory: Uuid) -> bool:
    """`LOST`: it failed before the controller was told that the replica is there."""
    if is_reserved_uuid(directory):
        return directory == LOST_DIRECTORY
    return bool(broker.log_dirs) and directory not in broker.log_dirs


def _error(topic: TopicImage | None, number: int, broker_id: int) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker_id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _assigned(
    situation: Situation, topic: TopicImage, place: TopicIdPartition, where: tuple[BrokerRegistration, Uuid]
) -> list[VersionedRecord]:
    """A replica whose directory is there was moved; one whose directory is gone, or was lost before it was known, begins anew, empty."""
    partition, (broker, directory) = topic.partitions[place.partition], where
    is_gone = _is_offline(broker, partition.directory_of(broker.broker_id))
    record = change_partition(
        place,
        partition,
        Wish(
            isr=partition.isr,
            emptied=broker.broker_id if is_gone else NOBODY,
            directories={broker.broker_id: directory},
        ),
        situation.eligible(),
        metadata_version=situation.metadata_version,
        min_isr=min_isr_for(situation, topic.name),
    )
    return [] if record is None else [record]
