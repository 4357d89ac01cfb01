"""What do the steps of a group coordinator share: groups, offsets, deadlines, and what waits for a commit?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.coordinator.config import GroupConfig
from headrace.coordinator.events import Answer, AppendRecords, GroupEffect, GroupRecord, RequestReceived
from headrace.coordinator.group import ClassicGroup
from headrace.coordinator.member import Member
from headrace.coordinator.offsets import OffsetTable, OffsetWrites
from headrace.coordinator.timers import Timers


class HeartbeatMissed(NamedTuple):
    """A member's session is over unless it waits for us."""

    group_id: str
    member_id: str


class InitialDelayOver(NamedTuple):
    """The first members of an empty group had their time to gather; `remaining_ms` may still be added when more came."""

    group_id: str
    delay_ms: int
    remaining_ms: int


class JoinsOverdue(NamedTuple):
    """The rebalance timeout is over: go on with those who joined."""

    group_id: str


class SyncsOverdue(NamedTuple):
    """Members that joined this generation did not fetch their assignment in time."""

    group_id: str
    generation_id: int


class AppendOverdue(NamedTuple):
    """An append was not committed in `offsets.commit.timeout.ms`."""

    append_id: int


class ExpiryDue(NamedTuple):
    """Look for offsets past their retention."""


TimerAction = HeartbeatMissed | InitialDelayOver | JoinsOverdue | SyncsOverdue | AppendOverdue | ExpiryDue


class SyncStored(NamedTuple):
    """Once committed, the leader's assignment is handed out."""

    group_id: str
    generation_id: int
    assignment: dict[str, bytes]


class StaticMemberReplaced(NamedTuple):
    """Once committed, a static member's new incarnation learns that nothing changes; else the old one comes back."""

    group_id: str
    old_member_id: str
    new_member: Member
    old_protocols: tuple[tuple[str, bytes], ...]
    old_timeouts_ms: tuple[int, int]
    leader_before: str | None
    request: RequestReceived


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A request whose answer leaves when an append is committed. `event` tells which API's error answer to give else."""

    event: RequestReceived
    response: Any


@dataclass(slots=True, kw_only=True)
class PendingAppend:
    """An append that is not committed yet, and what follows from its outcome."""

    append_id: int
    waiters: list[Waiter] = field(default_factory=list)
    then: SyncStored | StaticMemberReplaced | None = None
    removed: dict[str, ClassicGroup] = field(default_factory=dict)


class Shard:
    """The groups of one partition of the offsets topic. Its fields are changed by the step functions of this package only.

    `effects` is what the current step has ordered so far; `pending` holds appends in the order they were made.
    """

    __slots__ = (
        "config",
        "effects",
        "groups",
        "is_loading",
        "next_append_id",
        "offsets",
        "pending",
        "sweep",
        "timers",
        "wall_ahead_ms",
    )

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetTable()
        self.timers: Timers[TimerAction] = Timers()
        self.pending: dict[int, PendingAppend] = {}
        self.effects: list[GroupEffect] = []
        self.next_append_id = 0
        self.is_loading = True
        self.sweep: list[str] = []
        self.wall_ahead_ms = 0

    def wall(self, now_ms: int) -> int:
        """The wall clock's milliseconds since 1970 at `now_ms`."""
        return now_ms + self.wall_ahead_ms

    def answer(self, token: int | None, response: Any) -> None:
        """Answer now; nothing happens without a token."""
        if token is not None:
            self.effects.append(Answer(token=token, response=response))

    def answer_in_order(self, event: RequestReceived, response: Any) -> None:
        """Answer when all that was appended so far is committed: what the answer says may rest on it."""
        if not self.pending:
            self.answer(event.token, response)
        else:
            last = self.pending[next(reversed(self.pending))]
            last.waiters.append(Waiter(event=event, response=response))

    def append(
        self,
        records: Iterable[GroupRecord],
        *,
        now_ms: int,
        writes: OffsetWrites | None = None,
        waiter: Waiter | None = None,
        then: SyncStored | StaticMemberReplaced | None = None,
        is_atomic: bool = True,
    ) -> PendingAppend:
        """Order an append; its writes count for decisions from now on, for readers from its commit on."""
        append_id = self.next_append_id
        self.next_append_id += 1
        pending = PendingAppend(append_id=append_id, waiters=[waiter] if waiter else [], then=then)
        self.pending[append_id] = pending
        self.offsets.append(append_id, writes or {})
        self.timers.schedule(("append", append_id), now_ms + self.config.commit_timeout_ms, AppendOverdue(append_id))
        self.effects.append(
            AppendRecords(
                append_id=append_id, records=tuple(records), is_atomic=is_atomic, timestamp_ms=self.wall(now_ms)
            )
        )
        return pending

    def group_or_new(self, group_id: str, *, now_ms: int) -> ClassicGroup:
        """The group, made Empty when there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, wall_ms=self.wall(now_ms))
        return group

    # ---- deadlines of members and groups

    def expect_heartbeat(
        self, group: ClassicGroup, member: Member, *, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        """Start a member's session again; `timeout_ms` in place of its session timeout."""
        timeout = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.expect_from(group.group_id, member.member_id, deadline_ms=now_ms + timeout)

    def expect_from(self, group_id: str, member_id: str, *, deadline_ms: int) -> None:
        """Hear from this member id until then."""
        self.timers.schedule(("heartbeat", group_id, member_id), deadline_ms, HeartbeatMissed(group_id, member_id))

    def end_session(self, group_id: str, member_id: str) -> None:
        """Expect nothing from a member any more."""
        self.timers.cancel(("heartbeat", group_id, member_id))

    def schedule_join(self, group_id: str, *, deadline_ms: int, action: InitialDelayOver | JoinsOverdue) -> None:
        """Go on with a rebalance at the deadline; a group has one such deadline."""
        self.timers.schedule(("join", group_id), deadline_ms, action)

    def cancel_join(self, group_id: str) -> None:
        """The rebalance went on by itself."""
        self.timers.cancel(("join", group_id))

    def schedule_sync(self, group: ClassicGroup, *, now_ms: int) -> None:
        """Every member of the new generation has the rebalance timeout to fetch its assignment."""
        self.timers.schedule(
            ("sync", group.group_id),
            now_ms + group.rebalance_timeout_ms,
            SyncsOverdue(group.group_id, group.generation_id),
        )

    def cancel_sync(self, group_id: str) -> None:
        """Nobody's SyncGroup is waited for."""
        self.timers.cancel(("sync", group_id))

    def forget_group(self, group: ClassicGroup) -> None:
        """The group is gone, and so are its deadlines."""
        self.groups.pop(group.group_id, None)
        self.cancel_join(group.group_id)
        self.cancel_sync(group.group_id)
        for member_id in (*group.members, *group.pending_joins):
            self.end_session(group.group_id, member_id)
