"""What the steps of a group coordinator share: groups, deadlines, and what follows a commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.group import ClassicGroup, MemberTally
from headrace.coordinator.groups.image import GroupsImage, OffsetKey, StoredRecord
from headrace.coordinator.groups.member import Member
from headrace.coordinator.groups.stored import GroupRules
from headrace.coordinator.runtime.events import RequestReceived
from headrace.coordinator.runtime.shard import Shard


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


class TellDue(NamedTuple):
    """Go on telling the members of a large group what they wait for."""

    group_id: str


class ExpiryDue(NamedTuple):
    """Look for offsets past their retention."""


class DeletionDue(NamedTuple):
    """Go on with deletions of more positions than one turn takes."""


TimerAction = HeartbeatMissed | InitialDelayOver | JoinsOverdue | SyncsOverdue | TellDue | ExpiryDue | DeletionDue


class LongDeletion(NamedTuple):
    """Positions that are deleted some a turn; None stands for one that was looked at and stays. Behind the last one a DeleteGroups goes on as a short one."""

    keys: Iterator[OffsetKey | None]
    request: RequestReceived | None = None
    group_ids: frozenset[str] = frozenset()


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


class GroupsDeleted(NamedTuple):
    """Once committed, these groups are forgotten; else those that are still stored come back."""

    groups: dict[str, ClassicGroup]


class GroupCounts:
    """What happened to groups since this coordinator began: plain counters. `rebalances` are complete, the others are positions."""

    __slots__ = ("commits", "deletions", "expirations", "rebalances")

    def __init__(self) -> None:
        self.rebalances = self.commits = self.deletions = self.expirations = 0

    def add(self, other: GroupCounts) -> None:
        """Those of another coordinator are counted here too."""
        self.rebalances += other.rebalances
        self.commits += other.commits
        self.deletions += other.deletions
        self.expirations += other.expirations


class GroupShard(Shard[GroupsImage, StoredRecord]):
    """The groups of one partition of the offsets topic. Its fields are changed by the step functions of this package only.

    `groups` holds the living ones: members, what they wait for, and their state, which changes at once, as in Kafka. `sweep` is what is left to be looked at for expiry, `deletions` what is under way in turns.
    """

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(GroupRules(), commit_timeout_ms=config.commit_timeout_ms)
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.sweep: Iterator[OffsetKey | ClassicGroup | None] | None = None
        self.deletions: deque[LongDeletion] = deque()
        self.tally = MemberTally()
        self.counts = GroupCounts()

    @property
    def kept_bytes(self) -> int:
        """What members say of themselves."""
        return self.tally.bytes

    def is_dying(self, group_id: str) -> bool:
        """Whether some of the group's positions are deleted, and the others, and the group, will be in a moment."""
        return any(group_id in each.group_ids for each in self.deletions)

    def group_or_new(self, group_id: str, *, now_ms: int) -> ClassicGroup:
        """The group, made Empty when there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, wall_ms=self.wall(now_ms), tally=self.tally)
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

    def schedule_tell(self, group_id: str, *, now_ms: int) -> None:
        """Go on telling in the next turn."""
        self.timers.schedule(("tell", group_id), now_ms + 1, TellDue(group_id))

    def forget_group(self, group: ClassicGroup) -> None:
        """The group is gone, and so are its deadlines."""
        self.groups.pop(group.group_id, None)
        self.cancel_join(group.group_id)
        self.cancel_sync(group.group_id)
        for member_id in (*group.members, *group.pending_joins):
            self.end_session(group.group_id, member_id)

    def bring_back(self, groups: dict[str, ClassicGroup]) -> None:
        """The deletion of these groups failed: those of which something is stored live on, unless they were made anew."""
        for group_id, group in groups.items():
            if self.state.knows(group_id):
                self.groups.setdefault(group_id, group)
