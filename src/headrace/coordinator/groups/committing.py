"""The positions that a group stores, reads and deletes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.coordinator.groups.expiry import begin_deletion
from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.image import (
    CommittedOffset,
    GroupsImage,
    GroupStored,
    OffsetKey,
    OffsetStored,
    StoredRecord,
)
from headrace.coordinator.groups.positions import StoredPositions
from headrace.coordinator.groups.requests import DeleteGroups
from headrace.coordinator.groups.shard import GroupsDeleted, GroupShard, LongDeletion
from headrace.coordinator.runtime.events import RequestReceived
from headrace.coordinator.runtime.shard import Waiter
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.wire.messages.delete_groups import DeletableGroupResult
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

FIRST_VERSION_WITH_GROUP_NOT_FOUND = 9
_DELETED_AT_ONCE = 50
"""Positions that go with their groups: other coordinators of the same broker may be asked for other groups of one request."""
INT64_MAX = 2**63 - 1


def commit(shard: GroupShard, event: RequestReceived) -> None:
    """Store the positions of a member, or of a consumer outside group management when the group is Empty."""
    request: OffsetCommitRequest = event.request
    error = commit_error(shard.groups.get(request.group_id), request, event.api_version)
    if shard.is_dying(request.group_id):
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is not ErrorCode.NONE:
        shard.answer_in_order(event, commit_refused(request, error))
        return
    group = shard.group_or_new(request.group_id, now_ms=event.now_ms)
    member = group.members.get(request.member_id)
    if member is not None and group.is_in(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        shard.expect_heartbeat(group, member, now_ms=event.now_ms)
    wall_ms = shard.wall(event.now_ms)
    expires = -1
    if request.retention_time_ms != -1:
        expires = min(max(wall_ms + request.retention_time_ms, 0), INT64_MAX)
    writes: dict[OffsetKey, CommittedOffset] = {}
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            code = ErrorCode.NONE
            if _utf16_length(metadata) > shard.config.offset_metadata_max_size:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = OffsetKey(request.group_id, topic.name, partition.partition_index)
                writes[key] = _position(partition, topic.topic_id, wall_ms, expires)
            partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code))
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions)))
    response = OffsetCommitResponse(topics=tuple(topics))
    if writes:
        shard.counts.commits += len(writes)
        records = [OffsetStored(key, value) for key, value in writes.items()]
        shard.append(records, now_ms=event.now_ms, waiter=Waiter(event, response))
    else:
        shard.answer_in_order(event, response)


def commit_error(group: ClassicGroup | None, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """NONE, or why this commit must change nothing (G3)."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        is_told = api_version >= FIRST_VERSION_WITH_GROUP_NOT_FOUND
        return ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.is_in(GroupState.EMPTY):
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.COMPLETING_REBALANCE) else ErrorCode.NONE


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition of a request."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def delete_offsets(shard: GroupShard, event: RequestReceived) -> None:
    """Delete positions of partitions that nobody in the group reads (KIP-496)."""
    request: OffsetDeleteRequest = event.request
    group = shard.groups.get(request.group_id)
    error = _delete_offsets_error(group, request)
    if group is None or error is not ErrorCode.NONE:
        shard.answer_in_order(event, OffsetDeleteResponse(error_code=error))
        return
    held = shard.state.open_of(group.group_id)
    positions = shard.state.positions_of(group.group_id)
    gone: dict[OffsetKey, None] = {}
    topics = []
    for topic in request.topics:
        is_read = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        indexes = [partition.partition_index for partition in topic.partitions]
        for index in indexes:
            key = OffsetKey(group.group_id, topic.name, index)
            if not is_read and (index in positions.get(topic.name, ()) or key in held):
                gone[key] = None
        partitions = tuple(OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes)
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    response = OffsetDeleteResponse(topics=tuple(topics))
    if gone:
        shard.counts.deletions += len(gone)
        shard.append([OffsetStored(key, None) for key in gone], now_ms=event.now_ms, waiter=Waiter(event, response))
    else:
        shard.answer_in_order(event, response)


def delete_groups(shard: GroupShard, event: RequestReceived, *, now_ms: int, is_second: bool = False) -> None:
    """Delete groups without members, and their positions; the answer is a tuple of results.

    Where these are very many the positions go first, some a turn (M6); meanwhile nobody joins such a group or commits to it. `is_second`: they were to
    be gone by now, and the log did not take it.
    """
    request: DeleteGroups = event.request
    if _is_long(shard, request):
        if is_second:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            shard.answer(
                event.token,
                tuple(DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.group_ids),
            )
            return
        keys = (key for group_id in _deletable(shard, request) for key in _keys_in_turns(shard.state, group_id))
        deletion = LongDeletion(keys, event, frozenset(_deletable(shard, request)))
        begin_deletion(shard, deletion, now_ms=now_ms)
        return
    records: list[StoredRecord] = []
    results = []
    deleted: dict[str, ClassicGroup] = {}
    for group_id in dict.fromkeys(request.group_ids):
        group = shard.groups.get(group_id)
        code = ErrorCode.NONE
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_in(GroupState.EMPTY):
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            deleted[group_id] = group
            records.extend(OffsetStored(key, None) for key in shard.state.keys_of(group_id))
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    if not deleted:
        shard.answer_in_order(event, tuple(results))
        return
    records.extend(GroupStored(group_id, None) for group_id in deleted)
    for group in deleted.values():
        shard.forget_group(group)
    waiter = Waiter(event, tuple(results))
    shard.append(records, now_ms=now_ms, waiter=waiter, then=GroupsDeleted(deleted), is_atomic=False)


def _deletable(shard: GroupShard, request: DeleteGroups) -> list[str]:
    groups = ((group_id, shard.groups.get(group_id)) for group_id in dict.fromkeys(request.group_ids))
    return [group_id for group_id, group in groups if group is not None and group.is_in(GroupState.EMPTY)]


def _is_long(shard: GroupShard, request: DeleteGroups) -> bool:
    """Whether the groups have more positions than are deleted in one turn."""
    topics = (shard.state.positions_of(group_id).values() for group_id in _deletable(shard, request))
    return sum(len(partitions) for each in topics for partitions in each) > _DELETED_AT_ONCE


def _keys_in_turns(state: GroupsImage, group_id: str) -> Iterator[OffsetKey]:
    """The positions that a group has, in order, but for those in open transactions."""
    stored = state.positions_of(group_id)
    for topic in sorted(stored):
        for partition in sorted(stored[topic]):
            yield OffsetKey(group_id, topic, partition)


def fetch_stable(shard: GroupShard, event: RequestReceived) -> None:
    """Give the positions when all that was appended before is committed; what an open transaction holds is unstable (KIP-447)."""
    group_id = event.request.group_id
    held = shard.state.open_of(group_id)
    shard.answer_in_order(event, StoredPositions(group_id, shard.state.positions_of(group_id), held))


def committed_positions(shard: GroupShard, group_id: str) -> StoredPositions:
    """What a group has that is committed."""
    return StoredPositions(group_id, shard.committed.positions_of(group_id), frozenset())


def _delete_offsets_error(group: ClassicGroup | None, request: OffsetDeleteRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_in(GroupState.EMPTY) and not group.is_consumer_group:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _position(
    partition: OffsetCommitRequestPartition, topic_id: Uuid, wall_ms: int, expire_timestamp_ms: int
) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        wall_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=topic_id,
    )


def _utf16_length(text: str) -> int:
    """The length as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
