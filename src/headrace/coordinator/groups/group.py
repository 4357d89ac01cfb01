"""One classic group: its members, its generation, and the protocol by which they share the work.

State      | comes from                       | leaves to
-----------|----------------------------------|---------------------------------------------------------------
Empty      | new; PreparingRebalance          | PreparingRebalance (a member joins), Dead
Preparing  | Empty, Completing, Stable        | CompletingRebalance (joins are in), Empty (nobody left), Dead
Completing | PreparingRebalance               | Stable (the assignment is committed), PreparingRebalance, Dead
Stable     | CompletingRebalance; loaded      | PreparingRebalance (members change), Dead
Dead       | any, when its coordinator leaves |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from headrace.coordinator.groups.member import Member, unique_protocols
from headrace.coordinator.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from headrace.coordinator.hashing import hash_map_order
from headrace.core.error_code import ErrorCode


class GroupState(Enum):
    """The states of a classic group, by the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_MAY_FOLLOW: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""For each state the states it may follow."""


class MemberTally:
    """About how many bytes the members of some groups have said of themselves."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class ClassicGroup:
    """The members, leader and generation of one group, and the rules between them. Its coordinator's steps change it.

    `members` keeps the order in which they joined; `to_tell` is the rest, last first, of those who are told in turns what they wait for, `refusal` what a waiting SyncGroup
    is told of a group that is not Stable. `state_timestamp_ms` is when the state last changed, None when a loaded record did not say.
    `subscribed` is None when the group is no consumer group or a member's metadata cannot be read.
    """

    __slots__ = (
        "generation_id",
        "group_id",
        "is_member_new",
        "leader_id",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "refusal",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed",
        "support",
        "tally",
        "to_tell",
    )

    def __init__(self, group_id: str, *, wall_ms: int | None, tally: MemberTally | None = None) -> None:
        self.group_id = group_id
        self.tally = MemberTally() if tally is None else tally
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = wall_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, None] = {}
        self.pending_syncs: dict[str, None] = {}
        self.support: dict[str, int] = {}
        self.subscribed: frozenset[str] | None = None
        self.is_member_new = False
        self.to_tell: list[str] = []
        self.refusal = ErrorCode.REBALANCE_IN_PROGRESS

    # ---- members

    def add(self, member: Member) -> None:
        """Take a member in; the first one decides the protocol type and leads."""
        assert member.group_instance_id not in self.static_members, "a static member has one place"
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member, by=1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or a pending one; when it led, the oldest of the others leads."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, by=-1)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        return member

    def replace_static(self, old: Member, new_member_id: str) -> Member:
        """Give a static member's place, protocols and assignment to its new incarnation (KIP-345). Its waiting requests stay with `old`."""
        assert old.group_instance_id is not None, "only a static member is replaced"
        new = Member(
            new_member_id,
            client=(old.client_id, old.client_host),
            timeouts_ms=(old.rebalance_timeout_ms, old.session_timeout_ms),
            protocol_type=old.protocol_type,
            protocols=old.protocols.items(),
            group_instance_id=old.group_instance_id,
        )
        new.assignment = old.assignment
        del self.members[old.member_id]
        self.members[new_member_id] = new
        self.static_members[old.group_instance_id] = new_member_id
        if self.leader_id == old.member_id:
            self.leader_id = new_member_id
        return new

    def update(self, member: Member, *, protocols: Iterable[tuple[str, bytes]], timeouts_ms: tuple[int, int]) -> None:
        """Take over what a member says now; `timeouts_ms` is (rebalance timeout, session timeout)."""
        self._count(member, by=-1)
        member.protocols = unique_protocols(protocols)
        self._count(member, by=1)
        member.rebalance_timeout_ms, member.session_timeout_ms = timeouts_ms

    def _count(self, member: Member, *, by: int) -> None:
        self.tally.bytes += by * member.size
        for name in member.protocols:
            count = self.support.get(name, 0) + by
            if count:
                self.support[name] = count
            else:
                self.support.pop(name, None)

    # ---- queries

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in _MAY_FOLLOW[GroupState.PREPARING_REBALANCE]

    @property
    def awaiting_join_count(self) -> int:
        """How many members wait in JoinGroup."""
        return sum(member.is_awaiting_join for member in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody's JoinGroup is missing, that of members with a fresh id (KIP-394) included."""
        return not self.pending_joins and all(member.is_awaiting_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for, at least 0."""
        return max(0, *(member.rebalance_timeout_ms for member in self.members.values()), 0)

    @property
    def is_consumer_group(self) -> bool:
        """Whether the members speak the consumers' embedded protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols can be a member: one of them must suit all who are here."""
        if self.is_in(GroupState.EMPTY):
            return bool(protocol_type) and any(True for _ in names)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(self.support.get(name, 0) == size for name in names)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether somebody reads the topic; a consumer group whose members cannot be read reads everything."""
        return self.is_consumer_group if self.subscribed is None else topic in self.subscribed

    def known_member(self, member_id: str, group_instance_id: str | None) -> Member | None:
        """The member with this id, or the static one that comes back without it."""
        if not member_id and group_instance_id is not None:
            member_id = self.static_members.get(group_instance_id, "")
        return self.members.get(member_id)

    def member_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE, or why a request with this identity is not a current member's (G3)."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that every member supports; ties as Kafka breaks them."""
        if len(self.support) == 1:
            return next(iter(self.support))
        size, anybodys = len(self.members), next(iter(self.members.values())).protocols
        candidates = {name for name in anybodys if self.support[name] == size} or set(self.support)
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(hash_map_order(votes), key=votes.__getitem__)

    # ---- changes

    def move_to(self, state: GroupState, *, wall_ms: int) -> None:
        """Change the state; a move that is not in the table is our bug."""
        assert self.state in _MAY_FOLLOW[state], f"{self.group_id}: {self.state.value} -> {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = wall_ms

    def elect_joined_leader(self) -> bool:
        """Have a leader that waits in JoinGroup, the old one if it does; False when nobody does."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None:
            return False
        if not leader.is_awaiting_join:
            joined = next((member for member in self.members.values() if member.is_awaiting_join), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def begin_generation(self, *, wall_ms: int) -> None:
        """Number the next generation (G2) and choose its protocol; Empty when nobody is left."""
        self.generation_id = (self.generation_id + 1) & 0x7FFFFFFF
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscription()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall_ms=wall_ms)
        self.pending_syncs.clear()

    def refresh_subscription(self) -> None:
        """Read again which topics the members ask for."""
        if not self.is_consumer_group:
            self.subscribed = None
        elif not self.members:
            self.subscribed = frozenset()
        elif self.protocol_name is not None:
            self.subscribed = subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())
        else:
            self.subscribed = None
