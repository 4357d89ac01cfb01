"""What does the coordinator of one partition of the offsets topic decide?

`broker/groups.py` drives it: gives it events, does its effects in order, and reports the outcome of every append. It is loading until LoadFinished; the
driver sends no request before that. Deadlines are values: `next_deadline_ms` says when TimePassed is due.
"""

from __future__ import annotations

from typing import assert_never

from headrace.coordinator import committing, expiry, joining, membership, queries, rebalance
from headrace.coordinator.config import GroupConfig
from headrace.coordinator.events import (
    AppendFailed,
    DeleteGroups,
    FetchStableOffsets,
    GroupEffect,
    GroupEvent,
    LoadEvent,
    LoadFinished,
    RecordLoaded,
    RecordsCommitted,
    RequestReceived,
    Resigned,
    TimePassed,
    TopicsDeleted,
    TransactionEnded,
    WallClockMoved,
)
from headrace.coordinator.failures import failure_of, seen_by_clients
from headrace.coordinator.group import GroupState
from headrace.coordinator.offsets import OffsetTable
from headrace.coordinator.shard import (
    AppendOverdue,
    ExpiryDue,
    HeartbeatMissed,
    InitialDelayOver,
    JoinsOverdue,
    PendingAppend,
    Shard,
    StaticMemberReplaced,
    SyncsOverdue,
    SyncStored,
    TimerAction,
)
from headrace.coordinator.stored import GroupStored, read_record, restored_group
from headrace.coordinator.timers import Timers
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.wire.messages.describe_groups import DescribedGroup
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest
from headrace.wire.messages.list_groups import ListedGroup
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_delete import OffsetDeleteRequest
from headrace.wire.messages.offset_fetch import OffsetFetchResponseGroup
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NO_PRODUCER = -1


class GroupCoordinator:
    """Joins, assignments, sessions and offsets of the groups in one partition, as one machine. Source: KIP-62 and those it cites."""

    def __init__(self, config: GroupConfig) -> None:
        self.shard = Shard(config)

    @property
    def is_loading(self) -> bool:
        """Whether records are still being given; no request is served before that ends."""
        return self.shard.is_loading

    @property
    def next_deadline_ms(self) -> int | None:
        """When TimePassed is due, or None."""
        return self.shard.timers.next_deadline_ms()

    def step(self, event: GroupEvent) -> list[GroupEffect]:
        """Take in what happened and say what must be done, in that order."""
        shard = self.shard
        match event:
            case RequestReceived():
                self._serve(event)
            case RecordsCommitted():
                self._committed(event)
            case AppendFailed():
                self._failed(event)
            case TimePassed():
                self._ring(event.now_ms)
            case RecordLoaded() | TransactionEnded() | LoadFinished():
                self._load(event)
            case TopicsDeleted():
                expiry.on_topics_deleted(shard, event.topics, now_ms=event.now_ms)
            case WallClockMoved():
                shard.wall_ahead_ms = event.ahead_ms
            case Resigned():
                self._resign()
            case _:
                assert_never(event)
        effects, shard.effects = shard.effects, []
        return effects

    # ---- questions that change nothing

    def fetch_offsets(
        self, group_id: str, topics: list[tuple[str, Uuid, tuple[int, ...]]] | None
    ) -> OffsetFetchResponseGroup:
        """Committed positions of (name, topic id, partitions), or of everything the group has."""
        return committing.fetch_committed(self.shard, group_id, topics)

    def describe(self, group_id: str, *, api_version: int) -> DescribedGroup:
        """The state and the members of a group."""
        return queries.describe(self.shard, group_id, api_version=api_version)

    def list_groups(self, *, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
        """The groups whose state and type are among these, in any letter case; an empty set lets all through."""
        return queries.list_groups(self.shard, states=states, types=types)

    # ---- events

    def _serve(self, event: RequestReceived) -> None:
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
                committing.delete_groups(shard, event)
            case other:
                raise AssertionError(f"no group request: {type(other).__name__}")

    def _committed(self, event: RecordsCommitted) -> None:
        pending = self.shard.pending.pop(event.append_id, None)
        if pending is None:
            return
        self.shard.timers.cancel(("append", event.append_id))
        self.shard.offsets.commit(event.append_id)
        self._follow_up(pending, ErrorCode.NONE, now_ms=event.now_ms)

    def _failed(self, event: AppendFailed) -> None:
        shard = self.shard
        pending = shard.pending.pop(event.append_id, None)
        if pending is None:
            return
        shard.timers.cancel(("append", event.append_id))
        shard.offsets.drop(event.append_id)
        for group_id, group in pending.removed.items():
            shard.groups.setdefault(group_id, group)
        self._follow_up(pending, event.error, now_ms=event.now_ms)

    def _follow_up(self, pending: PendingAppend, error: ErrorCode, *, now_ms: int) -> None:
        """Answer those who waited for an append, and do what was to follow."""
        shard = self.shard
        for waiter in pending.waiters:
            response = waiter.response if error is ErrorCode.NONE else failure_of(waiter.event.request, error)
            shard.answer(waiter.event.token, response)
        pending.waiters.clear()
        then, pending.then = pending.then, None
        match then:
            case SyncStored():
                membership.finish_sync(shard, then, error=seen_by_clients(error), now_ms=now_ms)
            case StaticMemberReplaced():
                joining.finish_static_rejoin(shard, then, error=seen_by_clients(error), now_ms=now_ms)
            case None:
                pass
            case _:
                assert_never(then)

    def _ring(self, now_ms: int) -> None:
        while (due := self.shard.timers.pop_due(now_ms)) is not None:
            self._on_timer(due, now_ms=now_ms)

    def _on_timer(self, timer: TimerAction, *, now_ms: int) -> None:
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
            case AppendOverdue():
                # The records may still be committed: only those who wait for them give up.
                pending = shard.pending.get(timer.append_id)
                if pending is not None:
                    self._follow_up(pending, ErrorCode.REQUEST_TIMED_OUT, now_ms=now_ms)
            case ExpiryDue():
                expiry.on_expiry_due(shard, now_ms=now_ms)
            case _:
                assert_never(timer)

    # ---- loading and leaving

    def _load(self, event: LoadEvent) -> None:
        match event:
            case RecordLoaded():
                self._replay(event)
            case TransactionEnded():
                self.shard.offsets.end_transaction(event.producer_id, is_committed=event.is_committed)
            case LoadFinished():
                self._finish_load(now_ms=event.now_ms)
            case _:
                assert_never(event)

    def _replay(self, event: RecordLoaded) -> None:
        shard = self.shard
        record = read_record(event.key, event.value, record_offset=event.offset)
        if record is None:
            return
        if isinstance(record, GroupStored):
            if record.value is None:
                shard.groups.pop(record.group_id, None)
            else:
                shard.groups[record.group_id] = restored_group(record.group_id, record.value)
            return
        if record.value is not None:
            shard.group_or_new(record.key.group_id, now_ms=event.now_ms)
            if event.producer_id != NO_PRODUCER:
                shard.offsets.hold(event.producer_id, record.key, record.value)
                return
        shard.offsets.put(record.key, record.value)

    def _finish_load(self, *, now_ms: int) -> None:
        """Give every member a whole session to find the coordinator; groups above `group.max.size` rebalance."""
        shard = self.shard
        shard.is_loading = False
        expiry.schedule_expiry(shard, now_ms=now_ms)
        for group in shard.groups.values():
            for member in group.members.values():
                shard.expect_heartbeat(group, member, now_ms=now_ms)
            if len(group.members) > shard.config.max_size:
                rebalance.prepare(shard, group, now_ms=now_ms)

    def _resign(self) -> None:
        """Everybody who waits is sent to the next coordinator."""
        shard = self.shard
        gone = ErrorCode.NOT_COORDINATOR
        for pending in shard.pending.values():
            for waiter in pending.waiters:
                shard.answer(waiter.event.token, failure_of(waiter.event.request, gone))
        for group in shard.groups.values():
            for member in group.members.values():
                rebalance.answer_join(shard, member, JoinGroupResponse(error_code=gone, member_id=member.member_id))
                rebalance.answer_sync(shard, member, SyncGroupResponse(error_code=gone))
            group.state = GroupState.DEAD
        shard.groups.clear()
        shard.pending.clear()
        shard.offsets = OffsetTable()
        shard.timers = Timers()
