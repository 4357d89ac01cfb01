"""Which offsets and groups has nobody needed for so long that they may go? Source: KIP-211, KIP-496."""

from __future__ import annotations

from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.image import CommittedOffset, GroupStored, OffsetKey, OffsetStored, StoredRecord
from headrace.coordinator.groups.shard import ExpiryDue, GroupsDeleted, GroupShard
from headrace.core.ids import ZERO_UUID, Uuid

OFFSETS_A_STEP = 5_000
_KEY = "expiry"


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
    """Delete every position in topics that are gone, but none of a newer topic with the same name."""
    state = shard.state
    deleted = dict(topics)
    gone = {key for held in state.open.values() for key in held if key.topic in deleted}
    for group_id, stored in state.offsets.items():
        for name, topic_id in topics:
            for partition, position in stored.get(name, {}).items():
                if ZERO_UUID in (position.topic_id, topic_id) or position.topic_id == topic_id:
                    gone.add(OffsetKey(group_id, name, partition))
    if gone:
        _append_deletions(shard, sorted(gone), {}, now_ms=now_ms)


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
