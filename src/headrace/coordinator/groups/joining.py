"""Requests to join a group. Source: KIP-345 (static members), KIP-394 (ids first), KIP-814 (skipped assignment)."""

from __future__ import annotations

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.member import Member
from headrace.coordinator.groups.rebalance import (
    answer_join,
    answer_sync,
    await_join,
    joined_response,
    maybe_complete_join,
    prepare,
    rebalance_or_complete,
)
from headrace.coordinator.groups.shard import GroupShard, StaticMemberReplaced
from headrace.coordinator.groups.stored import group_record, is_too_large, new_group_record
from headrace.coordinator.runtime.events import RequestReceived
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.wire.messages.sync_group import SyncGroupResponse

MOST_PENDING_JOINS = 10_000
"""How many ids a group keeps that nobody came back with (M5); the oldest is forgotten first."""

MOST_MEMBERS = 4_000
"""Of one group, whatever `group.max.size` says: its record is written, and its members are given to the leader, in one turn (M6). Kafka's record of so many is
about as large as its topic takes unless told otherwise."""

MOST_PROTOCOLS = 100
"""Of one member: a vote looks through those of each (M6). Clients have a handful."""

_LONGEST_NAME_BYTES = 32_000
_LARGEST_UTF8 = 4
FIRST_VERSION_WITH_ID_FIRST = 4
FIRST_VERSION_WITH_SKIP = 9
FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1


def join(shard: GroupShard, event: RequestReceived) -> None:
    """Let a member in, or say why not. The answer may leave at once, when the group is complete, or when a record is committed."""
    request: JoinGroupRequest = event.request
    low, high = shard.config.min_session_timeout_ms, shard.config.max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        _refuse(shard, event, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        return
    if shard.is_dying(request.group_id):
        _refuse(shard, event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, request.member_id)
        return
    is_new_group = request.group_id not in shard.groups
    if is_new_group and request.member_id:
        _refuse(shard, event, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return
    group = shard.group_or_new(request.group_id, now_ms=event.now_ms)
    if not _has_room(shard, group, request.member_id, request.group_instance_id):
        if group.remove(request.member_id) is not None or request.member_id:
            shard.end_session(group.group_id, request.member_id)
        _refuse(shard, event, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    elif len(request.protocols) > MOST_PROTOCOLS or not group.supports(
        request.protocol_type, [protocol.name for protocol in request.protocols]
    ):
        _refuse(shard, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id:
        _join_known(shard, group, event)
    else:
        _join_unknown(shard, group, event)
    if is_new_group and group.is_in(GroupState.EMPTY, GroupState.PREPARING_REBALANCE):
        shard.append([new_group_record(group)], now_ms=event.now_ms)


def finish_static_rejoin(shard: GroupShard, replaced: StaticMemberReplaced, *, error: ErrorCode, now_ms: int) -> None:
    """The record of a replaced static member is committed, or it failed and the old incarnation comes back."""
    group = shard.groups.get(replaced.group_id)
    member = replaced.new_member
    request = replaced.request
    if group is None or group.members.get(member.member_id) is not member or member.join_token != request.token:
        return  # it went on meanwhile: a rebalance took it in, or yet another incarnation took its place
    if error is not ErrorCode.NONE:
        group.update(member, protocols=replaced.old_protocols, timeouts_ms=replaced.old_timeouts_ms)
        token, member.join_token = member.join_token, None
        shard.end_session(group.group_id, member.member_id)
        old = group.replace_static(member, replaced.old_member_id)
        shard.expect_heartbeat(group, old, now_ms=now_ms)
        shard.answer(
            token,
            JoinGroupResponse(
                error_code=error,
                generation_id=group.generation_id,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=replaced.leader_before or "",
            ),
        )
    elif request.api_version >= FIRST_VERSION_WITH_SKIP:
        leads = group.leader_id == member.member_id
        answer_join(shard, member, joined_response(group, member, skip_assignment=leads))
    else:
        # An old client that is told it leads would assign again: it is told the former leader's id instead.
        answer_join(
            shard,
            member,
            JoinGroupResponse(
                generation_id=group.generation_id,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=replaced.leader_before or "",
                member_id=member.member_id,
            ),
        )


def most_members(config: GroupConfig) -> int:
    """How many members may go into a generation."""
    return min(config.max_size, MOST_MEMBERS)


def _has_room(shard: GroupShard, group: ClassicGroup, member_id: str, instance_id: str | None) -> bool:
    """Whether `group.max.size` lets this member stay or come; in a rebalance the first to join are in."""
    if len(group.members) >= MOST_MEMBERS and group.known_member(member_id, instance_id) is None:
        return False
    if group.is_in(GroupState.EMPTY):
        return True
    if group.is_in(GroupState.PREPARING_REBALANCE):
        member = group.members.get(member_id)
        waits_already = member is not None and member.is_awaiting_join
        return waits_already or group.awaiting_join_count < most_members(shard.config)
    return member_id in group.members or len(group.members) < shard.config.max_size


def _join_unknown(shard: GroupShard, group: ClassicGroup, event: RequestReceived) -> None:
    """Somebody without a member id: a static member by its instance id, or a new dynamic one."""
    request: JoinGroupRequest = event.request
    instance_id = request.group_instance_id
    member_id = f"{_short(event.client_id if instance_id is None else instance_id)}-{event.fresh_id}"
    if instance_id is not None and instance_id in group.static_members:
        _replace_static(shard, group, event, member_id)
    elif instance_id is None and event.api_version >= FIRST_VERSION_WITH_ID_FIRST:
        if len(group.pending_joins) >= MOST_PENDING_JOINS:
            oldest = next(iter(group.pending_joins))
            group.remove(oldest)
            shard.end_session(group.group_id, oldest)
        group.pending_joins[member_id] = None
        shard.expect_from(group.group_id, member_id, deadline_ms=event.now_ms + request.session_timeout_ms)
        _refuse(shard, event, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add_member(shard, group, event, member_id)


def _join_known(shard: GroupShard, group: ClassicGroup, event: RequestReceived) -> None:
    """Somebody with a member id: it comes for the first time, or joins again."""
    request: JoinGroupRequest = event.request
    if request.member_id in group.pending_joins:
        if request.group_instance_id is None:
            _add_member(shard, group, event, request.member_id)
        else:
            _refuse(shard, event, ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
        return
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and group.is_in(GroupState.EMPTY):
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if error is not ErrorCode.NONE:
        shard.answer(event.token, JoinGroupResponse(error_code=error, member_id=request.member_id, protocol_name=None))
        return
    member = group.members[request.member_id]
    unchanged = member.supports_just(_protocols(request))
    is_leader = group.leader_id == member.member_id
    repeats = (group.is_in(GroupState.COMPLETING_REBALANCE) and unchanged) or (
        group.is_in(GroupState.STABLE) and unchanged and not is_leader
    )
    if repeats:
        shard.answer(event.token, joined_response(group, member))
    else:
        group.update(member, protocols=_protocols(request), timeouts_ms=_timeouts(event))
        await_join(shard, member, event.token)
        rebalance_or_complete(shard, group, now_ms=event.now_ms)


def _add_member(shard: GroupShard, group: ClassicGroup, event: RequestReceived, member_id: str) -> None:
    request: JoinGroupRequest = event.request
    member = Member(
        member_id,
        client=(event.client_id, event.client_host),
        timeouts_ms=_timeouts(event),
        protocol_type=request.protocol_type,
        protocols=_protocols(request),
        group_instance_id=request.group_instance_id,
    )
    member.is_new = True
    if group.is_in(GroupState.PREPARING_REBALANCE) and group.previous_state is GroupState.EMPTY:
        group.is_member_new = True
    group.add(member)
    member.join_token = event.token
    shard.expect_heartbeat(group, member, now_ms=event.now_ms, timeout_ms=shard.config.new_member_join_timeout_ms)
    rebalance_or_complete(shard, group, now_ms=event.now_ms)


def _replace_static(shard: GroupShard, group: ClassicGroup, event: RequestReceived, new_member_id: str) -> None:
    """A static member came back without its member id: the new incarnation takes its place, the old one is fenced."""
    request: JoinGroupRequest = event.request
    now_ms = event.now_ms
    assert request.group_instance_id is not None, "a static member has an instance id"
    leader_before = group.leader_id
    old = group.members[group.static_members[request.group_instance_id]]
    shard.end_session(group.group_id, old.member_id)
    group.pending_syncs.pop(old.member_id, None)
    answer_join(shard, old, _fenced_join(old.member_id))
    answer_sync(shard, old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    member = group.replace_static(old, new_member_id)
    member.join_token = event.token
    shard.expect_heartbeat(group, member, now_ms=now_ms)
    group.update(member, protocols=_protocols(request), timeouts_ms=_timeouts(event))
    if group.is_in(GroupState.COMPLETING_REBALANCE):
        prepare(shard, group, now_ms=now_ms)
    elif not group.is_in(GroupState.STABLE):
        maybe_complete_join(shard, group, now_ms=now_ms)
    elif group.select_protocol() != group.protocol_name:
        rebalance_or_complete(shard, group, now_ms=now_ms)
    else:
        assignment = {each.member_id: each.assignment for each in group.members.values()}
        replaced = StaticMemberReplaced(
            group_id=group.group_id,
            old_member_id=old.member_id,
            new_member=member,
            old_protocols=tuple(old.protocols.items()),
            old_timeouts_ms=(old.rebalance_timeout_ms, old.session_timeout_ms),
            leader_before=leader_before,
            request=event,
        )
        if is_too_large(group, assignment):
            finish_static_rejoin(shard, replaced, error=ErrorCode.UNKNOWN_SERVER_ERROR, now_ms=now_ms)
        else:
            shard.append([group_record(group, assignment)], now_ms=now_ms, then=replaced)


def _short(name: str) -> str:
    """A client's name, cut so that a member id made of it fits any version's string (B7)."""
    if len(name) * _LARGEST_UTF8 <= _LONGEST_NAME_BYTES:
        return name
    return name.encode()[:_LONGEST_NAME_BYTES].decode(errors="ignore")


def _protocols(request: JoinGroupRequest) -> list[tuple[str, bytes]]:
    return [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]


def _timeouts(event: RequestReceived) -> tuple[int, int]:
    """(rebalance timeout, session timeout); version 0 has but one for both."""
    request: JoinGroupRequest = event.request
    if event.api_version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        return request.session_timeout_ms, request.session_timeout_ms
    return request.rebalance_timeout_ms, request.session_timeout_ms


def _refuse(shard: GroupShard, event: RequestReceived, error: ErrorCode, member_id: str) -> None:
    shard.answer(event.token, JoinGroupResponse(error_code=error, member_id=member_id))


def _fenced_join(member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=member_id, protocol_name=None)
