"""The way of a group from one generation to the next. Source: KIP-62, KIP-134, KIP-345, KIP-394.

A rebalance waits for every member's JoinGroup, at most the longest rebalance timeout; then the generation begins, each member learns who leads, the
leader assigns, and SyncGroup hands the assignment out once it is committed.
"""

from __future__ import annotations

from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.member import Member
from headrace.coordinator.groups.shard import GroupShard, InitialDelayOver, JoinsOverdue, SyncsOverdue
from headrace.coordinator.groups.stored import group_record
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.messages.sync_group import SyncGroupResponse

TOLD_A_TURN = 200
"""Members of one group: each response is written, and sent on a connection of its own, some ten milliseconds in all (M6)."""
_UNTOLD_WAIT_MS = 10
_SHORTEST_WAIT_MS = 100
"""A rebalance timeout of 0 must not make us look for absent static members all the time."""


def rebalance_or_complete(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    """Something about the members changed: begin a rebalance, or go on with the one there is."""
    if group.can_rebalance:
        prepare(shard, group, now_ms=now_ms)
    else:
        maybe_complete_join(shard, group, now_ms=now_ms)


def prepare(
    shard: GroupShard, group: ClassicGroup, *, now_ms: int, refusal: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS
) -> None:
    """Begin a rebalance; an Empty group first waits `group.initial.rebalance.delay.ms` for more members. Who waits for an assignment hears `refusal`."""
    is_assigning = group.is_in(GroupState.COMPLETING_REBALANCE)
    group.pending_syncs.clear()
    shard.cancel_sync(group.group_id)
    if group.is_in(GroupState.EMPTY):
        delay = shard.config.initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        shard.schedule_join(
            group.group_id, deadline_ms=now_ms + delay, action=InitialDelayOver(group.group_id, delay, remaining)
        )
        group.move_to(GroupState.PREPARING_REBALANCE, wall_ms=shard.wall(now_ms))
        return
    group.move_to(GroupState.PREPARING_REBALANCE, wall_ms=shard.wall(now_ms))
    if is_assigning:
        for member in group.members.values():
            member.assignment = b""
        group.refusal = refusal
        begin_telling(shard, group, now_ms=now_ms)
    if group.has_all_joined or not group.members:  # with nobody left, who only has an id is not waited for
        complete_join(shard, group, now_ms=now_ms)
    else:
        _wait_for_joins(shard, group, now_ms=now_ms)


def maybe_complete_join(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    """Begin the generation if all have joined and the group is not gathering its first members."""
    preparing = group.is_in(GroupState.PREPARING_REBALANCE) and group.previous_state is not GroupState.EMPTY
    if preparing and group.has_all_joined:
        complete_join(shard, group, now_ms=now_ms)


def on_initial_delay(shard: GroupShard, timer: InitialDelayOver, *, now_ms: int) -> None:
    """The gathering time is over: prolong it if members came meanwhile, up to the rebalance timeout, else go on."""
    group = shard.groups.get(timer.group_id)
    if group is None:
        return
    if group.is_member_new and timer.remaining_ms:
        group.is_member_new = False
        delay = min(shard.config.initial_rebalance_delay_ms, timer.remaining_ms)
        remaining = max(timer.remaining_ms - timer.delay_ms, 0)
        shard.schedule_join(
            group.group_id, deadline_ms=now_ms + delay, action=InitialDelayOver(group.group_id, delay, remaining)
        )
    else:
        complete_join(shard, group, now_ms=now_ms)


def on_joins_overdue(shard: GroupShard, timer: JoinsOverdue, *, now_ms: int) -> None:
    """The rebalance timeout is over: who did not join is out."""
    group = shard.groups.get(timer.group_id)
    if group is None or not group.is_in(GroupState.PREPARING_REBALANCE):
        return
    if group.to_tell:  # some do not know yet that they are to join
        shard.schedule_join(group.group_id, deadline_ms=now_ms + _UNTOLD_WAIT_MS, action=timer)
    else:
        complete_join(shard, group, now_ms=now_ms)


def complete_join(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    """Begin the next generation with those who joined, and static members who did not; Empty when nobody is left."""
    shard.cancel_join(group.group_id)
    missing = [m.member_id for m in group.members.values() if not m.is_awaiting_join and not m.is_static]
    for member_id in missing:
        group.remove(member_id)
        shard.end_session(group.group_id, member_id)
    if missing:
        tell_lost(shard, group, missing, "did not join again in time")
    if not group.elect_joined_leader() and group.members:
        _wait_for_joins(shard, group, now_ms=now_ms)
        return
    group.begin_generation(wall_ms=shard.wall(now_ms))
    if group.is_in(GroupState.EMPTY):
        shard.tell(group.group_id, f"group {group.group_id} is empty")
        shard.append([group_record(group, {})], now_ms=now_ms)
        return
    count = len(group.members)
    shard.tell(
        group.group_id, f"group {group.group_id} rebalances: generation {group.generation_id} with {count} members"
    )
    group.pending_syncs.update(dict.fromkeys(group.members))
    shard.schedule_sync(group, now_ms=now_ms)
    begin_telling(shard, group, now_ms=now_ms)


def begin_telling(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    """Tell every member what it waits for, some in this turn. The leader comes last: nothing is assigned before all know their generation."""
    group.to_tell = list(group.members)
    if group.leader_id in group.members:
        group.to_tell.remove(group.leader_id)
        group.to_tell.append(group.leader_id)
    group.to_tell.reverse()
    go_on_telling(shard, group, now_ms=now_ms)


def go_on_telling(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    """Tell some of those who are left. Who left meanwhile was told so; of a group that rebalances who waits in JoinGroup has joined the next generation."""
    room = TOLD_A_TURN
    while group.to_tell and room:
        member = group.members.get(group.to_tell.pop())
        if member is not None:
            room -= _tell(shard, group, member, now_ms=now_ms)
    if group.to_tell:
        shard.schedule_tell(group.group_id, now_ms=now_ms)
    else:
        group.refusal = ErrorCode.REBALANCE_IN_PROGRESS


def _tell(shard: GroupShard, group: ClassicGroup, member: Member, *, now_ms: int) -> bool:
    """Tell one member what its group's state means for it. False when there is nothing to tell."""
    is_syncing, is_joined = member.sync_token is not None, group.is_in(GroupState.COMPLETING_REBALANCE)
    if is_syncing:
        is_assigned = group.is_in(GroupState.STABLE)
        answer_sync(
            shard,
            member,
            assigned_response(group, member) if is_assigned else SyncGroupResponse(error_code=group.refusal),
        )
    if is_joined:
        answer_join(shard, member, joined_response(group, member))
        member.is_new = False
    if is_syncing or is_joined:
        shard.expect_heartbeat(group, member, now_ms=now_ms)
    return is_syncing or is_joined


def on_syncs_overdue(shard: GroupShard, timer: SyncsOverdue, *, now_ms: int) -> None:
    """Whoever joined and never asked for its assignment is out, and the group rebalances without it."""
    group = shard.groups.get(timer.group_id)
    if group is None or group.generation_id != timer.generation_id or not group.pending_syncs:
        return
    if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        tell_lost(shard, group, list(group.pending_syncs), "did not ask for its assignment in time")
        for member_id in list(group.pending_syncs):
            group.remove(member_id)
            shard.end_session(group.group_id, member_id)
        prepare(shard, group, now_ms=now_ms)


def tell_lost(shard: GroupShard, group: ClassicGroup, member_ids: list[str], why: str) -> None:
    """A line for the operator about members that are out against their will."""
    more = f" (so did {len(member_ids) - 1} more)" if len(member_ids) > 1 else ""
    shard.tell(group.group_id, f"group {group.group_id} lost member {member_ids[0]}: it {why}{more}")


def remove_member(shard: GroupShard, group: ClassicGroup, member: Member, *, now_ms: int) -> None:
    """A member is gone: its waiting requests are answered, and the others share its work."""
    dismiss(shard, group, member)
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance_or_complete(shard, group, now_ms=now_ms)
    else:
        _complete_if_all_joined(shard, group, now_ms=now_ms)


def remove_pending(shard: GroupShard, group: ClassicGroup, member_id: str, *, now_ms: int) -> None:
    """Somebody who got a member id never came back with it."""
    group.remove(member_id)
    _complete_if_all_joined(shard, group, now_ms=now_ms)


def dismiss(shard: GroupShard, group: ClassicGroup, member: Member) -> None:
    """Take a member out and tell it so where it waits."""
    shard.end_session(group.group_id, member.member_id)
    if member.is_awaiting_join:
        answer_join(shard, member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
    if member.sync_token is not None:
        answer_sync(shard, member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)


def hand_out(shard: GroupShard, group: ClassicGroup, assignment: dict[str, bytes], *, now_ms: int) -> None:
    """Give every member what the leader assigned to it; the group is Stable."""
    for member in group.members.values():
        member.assignment = assignment.get(member.member_id, b"")
    group.move_to(GroupState.STABLE, wall_ms=shard.wall(now_ms))
    shard.counts.rebalances += 1
    begin_telling(shard, group, now_ms=now_ms)


def answer_join(shard: GroupShard, member: Member, response: JoinGroupResponse) -> bool:
    """Answer a member's waiting JoinGroup; False when there is none."""
    token, member.join_token = member.join_token, None
    shard.answer(token, response)
    return token is not None


def answer_sync(shard: GroupShard, member: Member, response: SyncGroupResponse) -> bool:
    """Answer a member's waiting SyncGroup; False when there is none."""
    token, member.sync_token = member.sync_token, None
    shard.answer(token, response)
    return token is not None


def await_join(shard: GroupShard, member: Member, token: int) -> None:
    """Let this JoinGroup wait. One that waited already is answered: only the newest counts."""
    answer_join(
        shard, member, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
    )
    member.join_token = token


def joined_response(group: ClassicGroup, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """What a member of the current generation learns; the leader learns who the others are."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=member_list(group) if group.leader_id == member.member_id else (),
    )


def member_list(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    """Every member with its metadata for the chosen protocol, for the leader's eyes."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    )


def assigned_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """A member's assignment, with the protocol it was made by (KIP-559)."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _wait_for_joins(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    timeout_ms = max(group.rebalance_timeout_ms, _SHORTEST_WAIT_MS)
    shard.schedule_join(group.group_id, deadline_ms=now_ms + timeout_ms, action=JoinsOverdue(group.group_id))


def _complete_if_all_joined(shard: GroupShard, group: ClassicGroup, *, now_ms: int) -> None:
    if group.is_in(GroupState.PREPARING_REBALANCE) and group.has_all_joined:
        complete_join(shard, group, now_ms=now_ms)
