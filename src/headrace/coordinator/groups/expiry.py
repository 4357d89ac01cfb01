"""Offsets and groups that nobody has needed for so long that they may go. Source: KIP-211, KIP-496."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.image import CommittedOffset, GroupStored, OffsetKey, OffsetStored, StoredRecord
from headrace.coordinator.groups.shard import DeletionDue, ExpiryDue, GroupsDeleted, GroupShard, LongDeletion
from headrace.coordinator.runtime.events import RequestReceived
from headrace.core.ids import ZERO_UUID, Uuid

OFFSETS_A_STEP = 5_000
POSITIONS_A_TURN = 500
"""Of those that are deleted at once: two milliseconds."""
_POSITIONS_AT_FIRST = 100
"""In the turn in which all coordinators of a broker hear of the same change."""
_KEY = "expiry"
_DELETIONS = "deletions"


def schedule_expiry(shard: GroupShard, *, now_ms: int) -> None:
    """Look for expired offsets after `offsets.retention.check.interval.ms`."""
    shard.timers.schedule(_KEY, now_ms + shard.config.offsets_retention_check_interval_ms, ExpiryDue())


def on_expiry_due(shard: GroupShard, *, now_ms: int) -> None:
    """Delete what is expired, about OFFSETS_A_STEP offsets at a time so that nobody waits for it (M6)."""
    if not shard.sweep:
        shard.sweep = list(shard.groups)
    seen = 0
    gone: list[OffsetKey] = []
    emptied: dict[str, ClassicGroup] = {}
    while shard.sweep and seen < OFFSETS_A_STEP:
        group = shard.groups.get(shard.sweep.pop())
        if group is None:
            continue
        expired, kept = _expired_offsets(shard, group, wall_ms=shard.wall(now_ms))
        seen += len(expired) + kept + 1
        gone.extend(sorted(expired))
        shard.counts.expirations += len(expired)
        is_unused = not kept and not shard.state.open_of(group.group_id)
        if is_unused and group.is_in(GroupState.EMPTY) and not group.pending_joins:
            emptied[group.group_id] = group
    if gone or emptied:
        _append_deletions(shard, gone, emptied, now_ms=now_ms)
    if shard.sweep:
        shard.timers.schedule(_KEY, now_ms + 1, ExpiryDue())
    else:
        schedule_expiry(shard, now_ms=now_ms)


def on_topics_deleted(shard: GroupShard, topics: tuple[tuple[str, Uuid], ...], *, now_ms: int) -> None:
    """Delete every position in topics that are gone, but none of a newer topic with the same name; some a turn, as every group is looked at (M6)."""
    ids: dict[str, set[Uuid]] = {}
    for name, topic_id in topics:
        ids.setdefault(name, set()).add(topic_id)
    begin_deletion(shard, LongDeletion(_positions_in(shard, ids, list(shard.groups))), now_ms=now_ms)


def begin_deletion(shard: GroupShard, deletion: LongDeletion, *, now_ms: int) -> None:
    """Take the first turn of it, unless others are before it."""
    shard.deletions.append(deletion)
    if len(shard.deletions) == 1:
        go_on_deleting(shard, now_ms=now_ms, room=_POSITIONS_AT_FIRST)


def go_on_deleting(shard: GroupShard, *, now_ms: int, room: int = POSITIONS_A_TURN) -> RequestReceived | None:
    """Delete some positions. Returns the DeleteGroups whose groups have few left."""
    gone: list[OffsetKey] = []
    ended: RequestReceived | None = None
    while shard.deletions and room > 0 and ended is None:
        deletion = shard.deletions[0]
        for key in deletion.keys:
            room -= 1
            if key is not None:
                gone.append(key)
            if room <= 0:
                break
        else:
            shard.deletions.popleft()
            ended = deletion.request
    if gone:
        _append_deletions(shard, gone, {}, now_ms=now_ms)
    if shard.deletions:
        shard.timers.schedule(_DELETIONS, now_ms + 1, DeletionDue())
    return ended


def _positions_in(shard: GroupShard, topics: dict[str, set[Uuid]], group_ids: list[str]) -> Iterator[OffsetKey | None]:
    """The positions that groups have in these topics, as they are when it comes to them."""
    held = {key for open_keys in shard.state.open.values() for key in open_keys if key.topic in topics}
    yield from sorted(held)
    for group_id in group_ids:
        yield None
        stored = shard.state.positions_of(group_id)
        for name in sorted(topics.keys() & stored.keys()):
            for partition in sorted(stored[name]):
                positions = shard.state.positions_of(group_id).get(name)
                position = None if positions is None else positions.get(partition)
                if position is None or OffsetKey(group_id, name, partition) in held:
                    continue
                ids = topics[name]
                if position.topic_id == ZERO_UUID or position.topic_id in ids or ZERO_UUID in ids:
                    yield OffsetKey(group_id, name, partition)


def _expired_offsets(shard: GroupShard, group: ClassicGroup, *, wall_ms: int) -> tuple[list[OffsetKey], int]:
    """The expired positions of a group, and how many others it has."""
    expired: list[OffsetKey] = []
    kept = 0
    for topic, partitions in shard.state.positions_of(group.group_id).items():
        if not _may_expire(group) or group.is_subscribed_to(topic):
            kept += len(partitions)
            continue
        for partition, position in partitions.items():
            key = OffsetKey(group.group_id, topic, partition)
            if _is_expired(shard, group, position, wall_ms=wall_ms) and not shard.state.is_unstable(key):
                expired.append(key)
            else:
                kept += 1
    return expired, kept


def _may_expire(group: ClassicGroup) -> bool:
    """Whether time runs for this group's offsets: nobody is there, or all who are there say what they read.

    A group without a protocol type stores offsets for consumers outside group management: time runs from each commit.
    """
    if group.protocol_type is None or group.is_in(GroupState.EMPTY):
        return True
    return group.is_consumer_group and group.subscribed is not None and group.is_in(GroupState.STABLE)


def _is_expired(shard: GroupShard, group: ClassicGroup, position: CommittedOffset, *, wall_ms: int) -> bool:
    if position.expire_timestamp_ms != -1:
        return wall_ms >= position.expire_timestamp_ms
    since = position.commit_timestamp_ms
    if group.protocol_type is not None and group.is_in(GroupState.EMPTY) and group.state_timestamp_ms is not None:
        since = group.state_timestamp_ms
    return wall_ms - since >= shard.config.offsets_retention_ms


def _append_deletions(
    shard: GroupShard, gone: list[OffsetKey], emptied: dict[str, ClassicGroup], *, now_ms: int
) -> None:
    records: list[StoredRecord] = [OffsetStored(key, None) for key in gone]
    records.extend(GroupStored(group_id, None) for group_id in emptied)
    for group in emptied.values():
        shard.forget_group(group)
    shard.append(records, now_ms=now_ms, then=GroupsDeleted(emptied), is_atomic=False)
