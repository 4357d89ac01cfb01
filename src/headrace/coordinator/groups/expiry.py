"""Offsets and groups that nobody has needed for so long that they may go. Source: KIP-211, KIP-496."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.image import GroupStored, OffsetKey, OffsetStored, StoredRecord
from headrace.coordinator.groups.shard import DeletionDue, ExpiryDue, GroupsDeleted, GroupShard, LongDeletion
from headrace.coordinator.runtime.events import RequestReceived
from headrace.core.ids import ZERO_UUID, Uuid

LOOKED_AT_A_TURN = 2_000
"""Positions and groups that are looked at for their age: a few milliseconds."""
POSITIONS_A_TURN = 200
"""Of those that are deleted at once: each is a record of its own, and two coordinators may have their turn together."""
_KEY = "expiry"
_DELETIONS = "deletions"


def schedule_expiry(shard: GroupShard, *, now_ms: int) -> None:
    """Look for expired offsets after `offsets.retention.check.interval.ms`."""
    shard.timers.schedule(_KEY, now_ms + shard.config.offsets_retention_check_interval_ms, ExpiryDue())


def on_expiry_due(shard: GroupShard, *, now_ms: int) -> None:
    """Delete what is expired, some a turn so that nobody waits for it (M6)."""
    if shard.sweep is None:
        shard.sweep = _expired(shard, list(shard.groups), wall_ms=shard.wall(now_ms))
    gone: list[OffsetKey] = []
    gone_of: Counter[str] = Counter()
    emptied: dict[str, ClassicGroup] = {}
    room = LOOKED_AT_A_TURN
    while room > 0:
        seen = next(shard.sweep, shard.sweep)
        if seen is shard.sweep:
            shard.sweep = None
            break
        if isinstance(seen, OffsetKey):
            gone.append(seen)
            gone_of[seen.group_id] += 1
        elif isinstance(seen, ClassicGroup) and _is_unused(shard, seen, but=gone_of[seen.group_id]):
            emptied[seen.group_id] = seen
        room -= 1 if seen is None else LOOKED_AT_A_TURN // POSITIONS_A_TURN
    if gone or emptied:
        shard.counts.expirations += len(gone)
        _append_deletions(shard, gone, emptied, now_ms=now_ms)
    if shard.sweep is not None:
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
    """Have the next turns for it: not this one, in which all coordinators of a broker may hear of the same change."""
    shard.deletions.append(deletion)
    shard.timers.schedule(_DELETIONS, now_ms, DeletionDue())


def go_on_deleting(shard: GroupShard, *, now_ms: int) -> RequestReceived | None:
    """Delete some positions. Returns the DeleteGroups whose groups have few left."""
    room = POSITIONS_A_TURN
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
                key = OffsetKey(group_id, name, partition)
                position = shard.state.position_of(key)
                if position is None or key in held:
                    continue
                ids = topics[name]
                if position.topic_id == ZERO_UUID or position.topic_id in ids or ZERO_UUID in ids:
                    yield key


def _expired(shard: GroupShard, group_ids: list[str], *, wall_ms: int) -> Iterator[OffsetKey | ClassicGroup | None]:
    """The positions that are expired, as they and their groups are when it comes to them; behind those of a group the group itself. None stands for what was looked at and stays."""
    for group_id in group_ids:
        yield None
        for topic, partitions in shard.state.positions_of(group_id).items():
            yield None
            if not _may_expire_in(shard.groups.get(group_id), topic):
                continue
            for partition in partitions:
                key = OffsetKey(group_id, topic, partition)
                yield key if _is_expired(shard, key, wall_ms=wall_ms) else None
        group = shard.groups.get(group_id)
        if group is not None and not group.members:
            yield group


def _is_unused(shard: GroupShard, group: ClassicGroup, *, but: int) -> bool:
    """Whether a group has no members, and no positions but so many that are deleted in this turn."""
    if shard.groups.get(group.group_id) is not group or not group.is_in(GroupState.EMPTY) or group.pending_joins:
        return False
    stored = sum(map(len, shard.state.positions_of(group.group_id).values()))
    return stored == but and not shard.state.open_of(group.group_id)


def _may_expire_in(group: ClassicGroup | None, topic: str) -> bool:
    """Whether time runs for this group's offsets in a topic: nobody is there, or all who are there say what they read, and it is not this.

    A group without a protocol type stores offsets for consumers outside group management: time runs from each commit.
    """
    if group is None or group.is_subscribed_to(topic):
        return False
    if group.protocol_type is None or group.is_in(GroupState.EMPTY):
        return True
    return group.is_consumer_group and group.subscribed is not None and group.is_in(GroupState.STABLE)


def _is_expired(shard: GroupShard, key: OffsetKey, *, wall_ms: int) -> bool:
    """Whether a position may go. Its group is looked at with each: between two turns somebody may have joined, or it was deleted and made anew."""
    group, position = shard.groups.get(key.group_id), shard.state.position_of(key)
    if group is None or position is None or not _may_expire_in(group, key.topic):
        return False
    since = position.commit_timestamp_ms
    if group.protocol_type is not None and group.is_in(GroupState.EMPTY) and group.state_timestamp_ms is not None:
        since = group.state_timestamp_ms
    ends = position.expire_timestamp_ms
    is_over = wall_ms - since >= shard.config.offsets_retention_ms if ends == -1 else wall_ms >= ends
    return is_over and not shard.state.is_unstable(key)


def _append_deletions(
    shard: GroupShard, gone: list[OffsetKey], emptied: dict[str, ClassicGroup], *, now_ms: int
) -> None:
    records: list[StoredRecord] = [OffsetStored(key, None) for key in gone]
    records.extend(GroupStored(group_id, None) for group_id in emptied)
    for group in emptied.values():
        shard.forget_group(group)
    shard.append(records, now_ms=now_ms, then=GroupsDeleted(emptied), is_atomic=False)
