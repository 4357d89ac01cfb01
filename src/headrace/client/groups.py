"""Conversations about groups: which there are, who is in them, and their deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.retry import Attempts, error_of, only
from headrace.client.routing import ask_coordinator, ask_each_node, coordinator_of
from headrace.client.session import Session
from headrace.client.talk import Address, Call, Conversation
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.core.ids import TopicPartition
from headrace.wire import codec
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.protocols.consumer_protocol_assignment import ConsumerProtocolAssignment

CONSUMER_PROTOCOL = "consumer"
_TYPE_NAMES = {"classic": "Classic", "consumer": "Consumer", "share": "Share", "streams": "Streams"}
_HAS_STATES, _HAS_TYPES = 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as ListGroups shows it. `state` and `kind` are empty where the node does not tell."""

    group_id: str
    protocol: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group and what it was assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    member_epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as its coordinator describes it."""

    group_id: str
    kind: str
    state: str
    protocol: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: tuple[int, Address]
    group_epoch: int | None = None
    target_epoch: int | None = None


def list_groups(
    session: Session, *, states: Sequence[str] = (), kinds: Sequence[str] = ()
) -> Conversation[list[GroupListing]]:
    """Every group of every broker that is in one of `states` and of one of `kinds` (empty: any), by id. Raises PeerError."""

    def build(version: int) -> ListGroupsRequest:
        return ListGroupsRequest(
            states_filter=tuple(states) if version >= _HAS_STATES else (),
            types_filter=tuple(kinds) if version >= _HAS_TYPES else (),
        )

    found: dict[str, GroupListing] = {}
    call = Call(api=ListGroupsRequest, build=build, at_least=_HAS_TYPES if kinds else _HAS_STATES if states else 0)
    for response in (yield from ask_each_node(session, call, verdict=lambda answer: error_of(answer.error_code))):
        for group in response.groups:
            kind = _TYPE_NAMES.get(group.group_type, group.group_type)
            found[group.group_id] = GroupListing(
                group_id=group.group_id, protocol=group.protocol_type, state=group.group_state, kind=kind or "Classic"
            )
    return [found[group_id] for group_id in sorted(found)]


def describe_group(session: Session, group_id: str) -> Conversation[GroupDescription]:
    """A group of either protocol. Raises PeerError(GROUP_ID_NOT_FOUND) when there is none."""
    try:
        return (yield from _describe_new(session, group_id))
    except PeerError as error:
        if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND):
            raise
    return (yield from _describe_classic(session, group_id))


def _coordinator(session: Session, group_id: str) -> Conversation[tuple[int, Address]]:
    address = yield from coordinator_of(session, group_id, Attempts(session))
    return (session.coordinators.get(group_id, -1), address or Address(host="", port=0))


def _describe_new(session: Session, group_id: str) -> Conversation[GroupDescription]:
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))

    def verdict(answer: Any) -> PeerError | None:
        return error_of((group := only(answer.groups)).error_code, group.error_message)

    response = yield from ask_coordinator(session, group_id, request, verdict=verdict)
    group = only(response.groups)
    return GroupDescription(
        group_id=group_id,
        kind="Consumer",
        state=group.group_state,
        protocol=CONSUMER_PROTOCOL,
        assignor=group.assignor_name,
        members=tuple(_new_member(member) for member in group.members),
        coordinator=(yield from _coordinator(session, group_id)),
        group_epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
    )


def _new_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_flat(member.assignment),
        member_epoch=member.member_epoch,
        target=_flat(member.target_assignment),
    )


def _flat(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _describe_classic(session: Session, group_id: str) -> Conversation[GroupDescription]:
    def verdict(answer: Any) -> PeerError | None:
        return error_of((group := only(answer.groups)).error_code, group.error_message)

    response = yield from ask_coordinator(session, group_id, DescribeGroupsRequest(groups=(group_id,)), verdict=verdict)
    group = only(response.groups)
    if group.group_state == "Dead":
        raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    is_consumer = group.protocol_type in (CONSUMER_PROTOCOL, "")
    return GroupDescription(
        group_id=group_id,
        kind="Classic",
        state=group.group_state,
        protocol=group.protocol_type,
        assignor=group.protocol_data,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assignment=read_assignment(member.member_assignment) if is_consumer else (),
            )
            for member in group.members
        ),
        coordinator=(yield from _coordinator(session, group_id)),
    )


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a consumer's assignment; none for bytes that are no such thing (any leader may write them)."""
    if len(data) < 2:
        return ()
    version = min(int.from_bytes(data[:2], "big", signed=True), ConsumerProtocolAssignment.SCHEMA.versions.last)
    try:
        found = codec.decode(ConsumerProtocolAssignment, memoryview(data)[2:], max(version, 0), allow_trailing=True)
    except DecodeError:
        return ()
    return tuple(
        TopicPartition(topic.topic, number) for topic in found.assigned_partitions for number in topic.partitions
    )


def delete_groups(session: Session, group_ids: Sequence[str]) -> Conversation[Mapping[str, PeerError | None]]:
    """Delete groups; None for each that is gone, or why it is not."""
    found: dict[str, PeerError | None] = {}
    for group_id in group_ids:
        try:
            yield from ask_coordinator(
                session,
                group_id,
                DeleteGroupsRequest(groups_names=(group_id,)),
                verdict=lambda answer: error_of(only(answer.results).error_code),
            )
            found[group_id] = None
        except PeerError as error:
            found[group_id] = error
    return found
