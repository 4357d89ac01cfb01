"""Conversations about offsets: the ends of partitions, the offset of a time, and what a group has committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.retry import error_of
from headrace.client.routing import ask_coordinator, ask_leaders
from headrace.client.session import Session
from headrace.client.talk import Call, Conversation, bounded
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
LAST_NAMED_COMMIT = LAST_NAMED_FETCH = 9
"""From version 10 on topics are named by id, which a tool that must see deleted topics cannot use (KIP-848)."""
_NEEDED_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset that answers a time: -1 if no record is that young. `timestamp_ms` is the found record's, or -1."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group has committed for a partition; `leader_epoch` is -1 when none was given."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def by_topic(parts: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in the order given."""
    found: dict[str, list[int]] = {}
    for where in parts:
        found.setdefault(where.topic, []).append(where.partition)
    return found


def list_offsets(
    session: Session,
    wanted: Mapping[TopicPartition, int],
    *,
    is_read_committed: bool = False,
    timeout_ms: int | None = None,
) -> Conversation[dict[TopicPartition, ListedOffset | PeerError]]:
    """The offset for each partition's timestamp (ms since 1970) or special value, or why there is none."""
    at_least = max(
        [_NEEDED_VERSION.get(timestamp, 1) for timestamp in wanted.values()] + [2 if is_read_committed else 1]
    )

    def build(parts: list[TopicPartition], timeout_ms: int) -> Call:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(is_read_committed),
            topics=tuple(
                ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        ListOffsetsPartition(partition_index=number, timestamp=wanted[TopicPartition(topic, number)])
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(parts).items()
            ),
            timeout_ms=timeout_ms,
        )
        return bounded(request, at_least=at_least)

    def read(response: Any) -> dict[TopicPartition, ListedOffset | PeerError]:
        return {
            TopicPartition(topic.name, part.partition_index): error_of(part.error_code)
            or ListedOffset(offset=part.offset, timestamp_ms=part.timestamp, leader_epoch=part.leader_epoch)
            for topic in response.topics
            for part in topic.partitions
        }

    return (yield from ask_leaders(session, list(wanted), build=build, read=read, timeout_ms=timeout_ms))


def delete_records(
    session: Session, before: Mapping[TopicPartition, int]
) -> Conversation[dict[TopicPartition, int | PeerError]]:
    """Delete all records below each offset (-1: all there are); the low watermark that follows, or why not."""

    def build(parts: list[TopicPartition], timeout_ms: int) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=tuple(
                DeleteRecordsTopic(
                    name=topic,
                    partitions=tuple(
                        DeleteRecordsPartition(partition_index=number, offset=before[TopicPartition(topic, number)])
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(parts).items()
            ),
            timeout_ms=timeout_ms,
        )

    def read(response: Any) -> dict[TopicPartition, int | PeerError]:
        found: dict[TopicPartition, int | PeerError] = {}
        for topic in response.topics:
            for part in topic.partitions:
                error = error_of(part.error_code)
                found[TopicPartition(topic.name, part.partition_index)] = part.low_watermark if error is None else error
        return found

    return (yield from ask_leaders(session, list(before), build=build, read=read))


def fetch_committed(
    session: Session, group_id: str, parts: Sequence[TopicPartition] | None = None
) -> Conversation[dict[TopicPartition, CommittedOffset | PeerError]]:
    """What `group_id` has committed for `parts` (None: for all); partitions without a commit are left out. Raises PeerError."""
    topics = None if parts is None else by_topic(parts).items()

    def build(version: int) -> OffsetFetchRequest:
        if version < 8:
            old = (
                None
                if topics is None
                else tuple(OffsetFetchRequestTopic(name=name, partition_indexes=tuple(n)) for name, n in topics)
            )
            return OffsetFetchRequest(group_id=group_id, topics=old)
        new = (
            None
            if topics is None
            else tuple(OffsetFetchRequestTopics(name=name, partition_indexes=tuple(n)) for name, n in topics)
        )
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=new),))

    def verdict(response: Any) -> PeerError | None:
        return error_of(response.groups[0].error_code if response.groups else response.error_code)

    call = Call(api=OffsetFetchRequest, build=build, at_least=2, at_most=LAST_NAMED_FETCH)
    response = yield from ask_coordinator(session, group_id, call, verdict=verdict)
    found: dict[TopicPartition, CommittedOffset | PeerError] = {}
    for topic in response.groups[0].topics if response.groups else response.topics:
        for part in topic.partitions:
            error = error_of(part.error_code)
            if error is not None:
                found[TopicPartition(topic.name, part.partition_index)] = error
            elif part.committed_offset >= 0:
                found[TopicPartition(topic.name, part.partition_index)] = CommittedOffset(
                    offset=part.committed_offset, leader_epoch=part.committed_leader_epoch, metadata=part.metadata or ""
                )
    return found


def commit_offsets(
    session: Session,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    member_id: str = "",
    generation_id: int = -1,
    group_instance_id: str | None = None,
) -> Conversation[dict[TopicPartition, PeerError | None]]:
    """Commit `offsets` for a group, as a tool (no member) or as its member; None for each that was taken. Raises PeerError."""
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)].offset,
                        committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(offsets).items()
        ),
    )

    def verdict(response: Any) -> PeerError | None:
        errors = [error_of(part.error_code) for topic in response.topics for part in topic.partitions]
        return next((error for error in errors if error is not None and error.code.is_retriable), None)

    response = yield from ask_coordinator(
        session, group_id, bounded(request, at_most=LAST_NAMED_COMMIT), verdict=verdict
    )
    return {
        TopicPartition(topic.name, part.partition_index): error_of(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }


def delete_committed(
    session: Session, group_id: str, parts: Sequence[TopicPartition]
) -> Conversation[dict[TopicPartition, PeerError | None]]:
    """Forget what a group has committed for `parts`; None for each that is forgotten. Raises PeerError for the group as a whole."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=topic, partitions=tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers)
            )
            for topic, numbers in by_topic(parts).items()
        ),
    )
    response = yield from ask_coordinator(
        session, group_id, request, verdict=lambda answer: error_of(answer.error_code)
    )
    return {
        TopicPartition(topic.name, part.partition_index): error_of(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }
