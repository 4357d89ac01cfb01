"""A member that fetches its assignment, shows that it lives, or leaves."""

from __future__ import annotations

from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.rebalance import (
    assigned_response,
    dismiss,
    hand_out,
    maybe_complete_join,
    prepare,
    rebalance_or_complete,
    remove_member,
    remove_pending,
    tell_lost,
)
from headrace.coordinator.groups.shard import GroupShard, HeartbeatMissed, SyncStored
from headrace.coordinator.groups.stored import group_record, is_too_large
from headrace.coordinator.runtime.events import RequestReceived
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(shard: GroupShard, event: RequestReceived) -> None:
    """Take the leader's assignment, and give each member its part once that is committed."""
    request: SyncGroupRequest = event.request
    group = shard.groups.get(request.group_id)
    error = _sync_error(group, request)
    if group is None or error is not ErrorCode.NONE:
        shard.answer(event.token, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        shard.cancel_sync(group.group_id)
    if group.is_in(GroupState.STABLE):
        shard.answer(event.token, assigned_response(group, member))
        return
    shard.answer(member.sync_token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_token = event.token
    if group.leader_id == member.member_id:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignment = {member_id: given.get(member_id, b"") for member_id in group.members}
        then = SyncStored(group.group_id, group.generation_id, assignment)
        if is_too_large(group, assignment):
            finish_sync(shard, then, error=ErrorCode.UNKNOWN_SERVER_ERROR, now_ms=event.now_ms)
        else:
            shard.append([group_record(group, assignment)], now_ms=event.now_ms, then=then)


def finish_sync(shard: GroupShard, stored: SyncStored, *, error: ErrorCode, now_ms: int) -> None:
    """The assignment is committed, or it failed and the group must try again."""
    group = shard.groups.get(stored.group_id)
    if group is None or group.generation_id != stored.generation_id or not group.is_in(GroupState.COMPLETING_REBALANCE):
        return
    if error is ErrorCode.NONE:
        hand_out(shard, group, stored.assignment, now_ms=now_ms)
    else:
        prepare(shard, group, now_ms=now_ms, refusal=error)


def heartbeat(shard: GroupShard, event: RequestReceived) -> None:
    """Keep a member's session alive, and tell it when it must join again."""
    request: HeartbeatRequest = event.request
    group = shard.groups.get(request.group_id)
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None:
        error = group.member_error(request.member_id, request.group_instance_id)
    if group is not None and error is ErrorCode.NONE:
        if request.generation_id != group.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        else:
            shard.expect_heartbeat(group, group.members[request.member_id], now_ms=event.now_ms)
            if group.is_in(GroupState.PREPARING_REBALANCE):
                error = ErrorCode.REBALANCE_IN_PROGRESS
    shard.answer(event.token, HeartbeatResponse(error_code=error))


def leave(shard: GroupShard, event: RequestReceived) -> None:
    """Let members go; a static one may be sent away by its instance id alone (KIP-345)."""
    request: LeaveGroupRequest = event.request
    group = shard.groups.get(request.group_id)
    if group is None:
        answers = tuple(_left(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members)
    else:
        answers = tuple(_left(member, _leave_one(shard, group, member)) for member in request.members)
        if any(answer.error_code == ErrorCode.NONE for answer in answers):
            if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                rebalance_or_complete(shard, group, now_ms=event.now_ms)
            else:
                maybe_complete_join(shard, group, now_ms=event.now_ms)
    shard.answer_in_order(event, LeaveGroupResponse(members=answers))


def on_heartbeat_missed(shard: GroupShard, timer: HeartbeatMissed, *, now_ms: int) -> None:
    """A session is over: the member is out, unless it waits for an answer of ours."""
    group = shard.groups.get(timer.group_id)
    if group is None:
        return
    if timer.member_id in group.pending_joins:
        remove_pending(shard, group, timer.member_id, now_ms=now_ms)
        return
    member = group.members.get(timer.member_id)
    if member is not None and not member.is_excused:
        why = f"sent no heartbeat for {member.session_timeout_ms} ms"
        tell_lost(shard, group, [member.member_id], "was not heard of again" if member.is_new else why)
        remove_member(shard, group, member, now_ms=now_ms)


def _sync_error(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    """NONE when the group assigns or has assigned in this generation and the request is of a member of it."""
    if group is None or group.is_in(GroupState.EMPTY):
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_untold = group.is_in(GroupState.COMPLETING_REBALANCE) and group.members[request.member_id].is_awaiting_join
    is_preparing = group.is_in(GroupState.PREPARING_REBALANCE)
    return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing or is_untold else ErrorCode.NONE


def _differ(asked: str | None, known: str | None) -> bool:
    """Whether both sides name a protocol, and not the same (KIP-559)."""
    return asked is not None and known is not None and asked != known


def _leave_one(shard: GroupShard, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        known = group.static_members.get(instance_id) if instance_id is not None else None
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id in group.pending_joins:
        group.remove(member_id)
        shard.end_session(group.group_id, member_id)
        return ErrorCode.NONE
    else:
        error = group.member_error(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
    dismiss(shard, group, group.members[member_id])
    return ErrorCode.NONE


def _left(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
