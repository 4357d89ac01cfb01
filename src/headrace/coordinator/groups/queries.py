"""What tools see of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.coordinator.groups.group import GroupState
from headrace.coordinator.groups.member import Member
from headrace.coordinator.groups.shard import GroupShard
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headrace.wire.messages.list_groups import ListedGroup

GROUP_TYPE = "classic"
FIRST_VERSION_WITH_NOT_FOUND = 6
LISTED_AT_ONCE: Final = 100


def describe(shard: GroupShard, group_id: str, *, api_version: int) -> DescribedGroup:
    """A group's state and members; unknown ones are Dead, and from version 6 on also GROUP_ID_NOT_FOUND (KIP-1043)."""
    group = shard.groups.get(group_id)
    if group is None:
        return not_found(group_id, api_version=api_version)
    is_stable = group.is_in(GroupState.STABLE)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(_described(m, group.protocol_name if is_stable else None) for m in group.members.values()),
    )


def not_found(group_id: str, *, api_version: int) -> DescribedGroup:
    """What is told of a group that there is not."""
    if api_version < FIRST_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    return DescribedGroup(
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} not found.",
    )


def list_groups(shard: GroupShard, *, states: frozenset[str], types: frozenset[str]) -> Iterator[list[ListedGroup]]:
    """Groups by state and type (KIP-518, KIP-848), without regard to letter case and blanks around; LISTED_AT_ONCE are looked at for each list."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    if wanted_types and GROUP_TYPE not in wanted_types:
        return
    groups = list(shard.groups.values())
    for at in range(0, len(groups), LISTED_AT_ONCE):
        yield [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=GROUP_TYPE,
            )
            for group in groups[at : at + LISTED_AT_ONCE]
            if not wanted_states or group.state.value.lower() in wanted_states
        ]


def _described(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
