"""The coordinator of the groups in one partition of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, assert_never

from headrace.coordinator.groups import committing, expiry, joining, membership, queries, rebalance
from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.failures import failure_of, seen_by_clients
from headrace.coordinator.groups.group import ClassicGroup, GroupState
from headrace.coordinator.groups.member import Member
from headrace.coordinator.groups.positions import StoredPositions
from headrace.coordinator.groups.requests import DeleteGroups, FetchStableOffsets, TopicsDeleted
from headrace.coordinator.groups.shard import (
    DeletionDue,
    ExpiryDue,
    GroupsDeleted,
    GroupShard,
    HeartbeatMissed,
    InitialDelayOver,
    JoinsOverdue,
    StaticMemberReplaced,
    SyncsOverdue,
    SyncStored,
    TellDue,
    TimerAction,
)
from headrace.coordinator.groups.stored import group_to_restore, restored_members
from headrace.coordinator.runtime.events import RequestReceived
from headrace.coordinator.runtime.machine import Runtime
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.describe_groups import DescribedGroup
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest
from headrace.wire.messages.list_groups import ListedGroup
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_delete import OffsetDeleteRequest
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

RESTORED_A_TURN: Final = 500
"""Members and groups that are restored in one turn of the load: a few milliseconds (M6)."""


class GroupCoordinator:
    """Joins, assignments, sessions and offsets of the groups in one partition, for the runtime of coordinators. Source: KIP-62 and those it cites."""

    def __init__(self, config: GroupConfig) -> None:
        self.shard = GroupShard(config)
        self._to_restore: list[str] | None = None
        self._restoring: tuple[ClassicGroup, Iterator[Member]] | None = None
        self._oversized: list[str] = []

    # ---- queries

    def positions(self, group_id: str) -> StoredPositions:
        """The committed positions of a group."""
        return committing.committed_positions(self.shard, group_id)

    def describe(self, group_id: str, *, api_version: int) -> DescribedGroup:
        """The state and the members of a group."""
        return queries.describe(self.shard, group_id, api_version=api_version)

    def list_groups(self, *, states: frozenset[str], types: frozenset[str]) -> Iterator[list[ListedGroup]]:
        """The groups whose state and type are among these, in any letter case; an empty set lets all through. Some at a time."""
        return queries.list_groups(self.shard, states=states, types=types)

    def member_count(self, group_id: str) -> int:
        """How many members a group has."""
        group = self.shard.groups.get(group_id)
        return 0 if group is None else len(group.members)

    def size_of_member(self, request: JoinGroupRequest) -> int:
        """About how much memory the member takes already that asks to join; 0 for a new one."""
        group = self.shard.groups.get(request.group_id)
        member = None if group is None else group.known_member(request.member_id, request.group_instance_id)
        return 0 if member is None else member.size

    # ---- what the runtime asks

    def serve(self, event: RequestReceived) -> None:
        """Decide about a request of one of the group APIs."""
        shard = self.shard
        match event.request:
            case HeartbeatRequest():
                membership.heartbeat(shard, event)
            case OffsetCommitRequest():
                committing.commit(shard, event)
            case JoinGroupRequest():
                joining.join(shard, event)
            case SyncGroupRequest():
                membership.sync(shard, event)
            case LeaveGroupRequest():
                membership.leave(shard, event)
            case FetchStableOffsets():
                committing.fetch_stable(shard, event)
            case OffsetDeleteRequest():
                committing.delete_offsets(shard, event)
            case DeleteGroups():
                committing.delete_groups(shard, event, now_ms=event.now_ms)
            case other:
                raise AssertionError(f"no group request: {type(other).__name__}")

    def refusal(self, request: Any, error: ErrorCode) -> object:
        """The response to a request that waited for a failed append."""
        return failure_of(request, error)

    def written(
        self, then: SyncStored | StaticMemberReplaced | GroupsDeleted, error: ErrorCode, *, now_ms: int
    ) -> None:
        """Hand out what is committed, or take back what failed."""
        shard = self.shard
        match then:
            case SyncStored():
                membership.finish_sync(shard, then, error=seen_by_clients(error), now_ms=now_ms)
            case StaticMemberReplaced():
                joining.finish_static_rejoin(shard, then, error=seen_by_clients(error), now_ms=now_ms)
            case GroupsDeleted():
                if error is not ErrorCode.NONE:
                    shard.bring_back(then.groups)
            case _:
                assert_never(then)

    def image_changed(self, change: TopicsDeleted, *, now_ms: int) -> None:
        """Forget the positions in topics that are gone."""
        expiry.on_topics_deleted(self.shard, change.topics, now_ms=now_ms)

    def ring(self, timer: TimerAction, *, now_ms: int) -> None:
        """A session, a rebalance or the time until the next look for expired offsets is over."""
        shard = self.shard
        match timer:
            case HeartbeatMissed():
                membership.on_heartbeat_missed(shard, timer, now_ms=now_ms)
            case InitialDelayOver():
                rebalance.on_initial_delay(shard, timer, now_ms=now_ms)
            case JoinsOverdue():
                rebalance.on_joins_overdue(shard, timer, now_ms=now_ms)
            case SyncsOverdue():
                rebalance.on_syncs_overdue(shard, timer, now_ms=now_ms)
            case TellDue():
                group = shard.groups.get(timer.group_id)
                if group is not None:
                    rebalance.go_on_telling(shard, group, now_ms=now_ms)
            case ExpiryDue():
                expiry.on_expiry_due(shard, now_ms=now_ms)
            case DeletionDue():
                request = expiry.go_on_deleting(shard, now_ms=now_ms)
                if request is not None:
                    committing.delete_groups(shard, request, now_ms=now_ms, is_second=True)
            case _:
                assert_never(timer)

    # ---- loading and leaving

    def restore(self, *, now_ms: int) -> bool:
        """Bring the stored groups to life, some a turn. Every member has a whole session to find the coordinator."""
        shard = self.shard
        if self._to_restore is None:
            self._to_restore = sorted(set(shard.state.group_ids()), reverse=True)
        room = RESTORED_A_TURN
        while room > 0 and (self._restoring or self._to_restore):
            if self._restoring is None:
                room -= 1
                self._begin_restoring(self._to_restore.pop(), now_ms)
                continue
            group, members = self._restoring
            member = next(members, None)
            if member is not None:
                room -= 1
                shard.expect_heartbeat(group, member, now_ms=now_ms)
                continue
            self._restoring = None
            if len(group.members) > joining.most_members(shard.config):
                self._oversized.append(group.group_id)
        return not (self._restoring or self._to_restore)

    def _begin_restoring(self, group_id: str, now_ms: int) -> None:
        shard = self.shard
        value = shard.state.groups.get(group_id)
        if value is None:
            shard.group_or_new(group_id, now_ms=now_ms)
            return
        group = shard.groups[group_id] = group_to_restore(group_id, value, tally=shard.tally)
        self._restoring = group, restored_members(group, value)

    def loaded(self, *, now_ms: int) -> None:
        """Groups above `group.max.size`, or with more members than any has here, rebalance."""
        expiry.schedule_expiry(self.shard, now_ms=now_ms)
        for group_id in self._oversized:
            rebalance.prepare(self.shard, self.shard.groups[group_id], now_ms=now_ms)

    def resigned(self) -> None:
        """Members that wait are sent to the next coordinator."""
        shard = self.shard
        gone = ErrorCode.NOT_COORDINATOR
        for deletion in shard.deletions:
            if deletion.request is not None:
                shard.answer(deletion.request.token, failure_of(deletion.request.request, gone))
        shard.deletions.clear()
        for group in shard.groups.values():
            for member in group.members.values():
                if member.is_awaiting_join:
                    rebalance.answer_join(shard, member, JoinGroupResponse(error_code=gone, member_id=member.member_id))
                if member.sync_token is not None:
                    rebalance.answer_sync(shard, member, SyncGroupResponse(error_code=gone))
            group.state = GroupState.DEAD
        shard.groups.clear()
        shard.tally.bytes = 0


def group_runtime(config: GroupConfig) -> Runtime:
    """A group coordinator that has loaded nothing, ready to be driven."""
    coordinator = GroupCoordinator(config)
    return Runtime(coordinator, coordinator.shard)
