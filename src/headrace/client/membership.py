"""A consumer's part in a group: it joins, shares out the partitions, stays alive, leaves.

The classic protocol with eager rebalances and the range assignor, which every Kafka consumer knows. A machine: `next_call` says what must be
asked of the coordinator now, `answered` and `lost` take the outcome.

    UNJOINED -> (JoinGroup) -> JOINED -> (SyncGroup) -> STABLE -> (Heartbeat says REBALANCE_IN_PROGRESS) -> UNJOINED
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from headrace.client.groups import CONSUMER_PROTOCOL, read_assignment
from headrace.client.offsets import by_topic
from headrace.client.session import Session
from headrace.client.talk import Call, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.core.ids import TopicPartition
from headrace.wire import codec
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.wire.protocols import consumer_protocol_assignment as assignments
from headrace.wire.protocols.consumer_protocol_subscription import ConsumerProtocolSubscription

SESSION_TIMEOUT_MS = 45_000
HEARTBEAT_MS = 3_000
REBALANCE_TIMEOUT_MS = 300_000
RANGE = "range"
_SUBSCRIPTION_VERSION = 1
_AGAIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


class Phase(Enum):
    """Where a member stands in its group."""

    UNJOINED = "unjoined"
    JOINED = "joined"
    STABLE = "stable"


def range_assignment(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Each topic's partitions in consecutive blocks over its subscribers by member id; the first ones get one more. Source: KIP-54's range.

    Topics without partitions are not looked at: another member may name hundreds of thousands.
    """
    shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    wanted = {member: frozenset(topics) for member, topics in subscriptions.items()}
    for topic in sorted(partitions):
        takers = sorted(member for member, topics in wanted.items() if topic in topics)
        size, extra = divmod(partitions[topic], max(len(takers), 1))
        first = 0
        for index, member in enumerate(takers):
            count = size + (index < extra)
            shares[member] += [TopicPartition(topic, number) for number in range(first, first + count)]
            first += count
    return shares


class Membership:
    """One member of a classic consumer group; driven by `BlockingConsumer`."""

    def __init__(self, session: Session, group_id: str, topics: Sequence[str]) -> None:
        self._session = session
        self.group_id = group_id
        self.topics = tuple(topics)
        self.member_id = ""
        self.generation_id = -1
        self.phase = Phase.UNJOINED
        self.assignment: tuple[TopicPartition, ...] = ()
        self._shares: dict[str, list[TopicPartition]] = {}
        self._next_heartbeat_ms = 0

    def next_call(self) -> Call | None:
        """The request that is due now, or None while the member is stable between two heartbeats."""
        if self.phase is Phase.UNJOINED:
            return self._join()
        if self.phase is Phase.JOINED:
            return self._sync()
        if self._session.now_ms < self._next_heartbeat_ms:
            return None
        self._next_heartbeat_ms = self._session.now_ms + HEARTBEAT_MS
        return bounded(
            HeartbeatRequest(group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)
        )

    def resubscribe(self, topics: Sequence[str]) -> None:
        """Other topics are wanted from now on: join again."""
        if tuple(topics) != self.topics:
            self.topics = tuple(topics)
            self.phase = Phase.UNJOINED

    def shared_topics(self, response: Any) -> frozenset[str]:
        """What all members subscribed to, where this answer makes the member the leader; else nothing."""
        if self.phase is not Phase.UNJOINED or response.error_code or response.leader != response.member_id:
            return frozenset()
        return frozenset(topic for each in response.members for topic in _subscribed(bytes(each.metadata)))

    def answered(self, response: Any, partitions: Mapping[str, int]) -> bool:
        """Take an answer; True if the assignment is new. `partitions` are the counts of `shared_topics`. Raises PeerError when refused."""
        code = ErrorCode.known(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return False
        if code in _AGAIN:
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                self.member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else self.member_id
            self.phase = Phase.UNJOINED
            return False
        if code is not ErrorCode.NONE:
            raise PeerError(code)
        if self.phase is Phase.UNJOINED:
            self._joined(response, partitions)
            return False
        if self.phase is Phase.JOINED:
            self.phase = Phase.STABLE
            self.assignment = read_assignment(bytes(response.assignment))
            self._next_heartbeat_ms = self._session.now_ms + HEARTBEAT_MS
            return True
        return False

    def _joined(self, response: Any, partitions: Mapping[str, int]) -> None:
        self.member_id, self.generation_id = response.member_id, response.generation_id
        self._shares = {}
        if response.leader == response.member_id:
            wanted = {member.member_id: _subscribed(bytes(member.metadata)) for member in response.members}
            self._shares = range_assignment(wanted, partitions)
        self.phase = Phase.JOINED

    def lost(self) -> None:
        """The coordinator could not be asked: sync cannot be repeated blindly, so join again unless stable."""
        if self.phase is Phase.JOINED:
            self.phase = Phase.UNJOINED

    def leaving(self) -> Call | None:
        """The request that says good-bye; None for one that never joined."""
        if not self.member_id:
            return None

        def build(version: int) -> LeaveGroupRequest:
            if version >= 3:
                return LeaveGroupRequest(group_id=self.group_id, members=(MemberIdentity(member_id=self.member_id),))
            return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)

        return Call(api=LeaveGroupRequest, build=build)

    def _join(self) -> Call:
        subscription = ConsumerProtocolSubscription(topics=self.topics)
        metadata = _SUBSCRIPTION_VERSION.to_bytes(2, "big") + codec.encode(subscription, _SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=(JoinGroupRequestProtocol(name=RANGE, metadata=metadata),),
        )
        return bounded(request, at_least=1)

    def _sync(self) -> Call:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=RANGE,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=_written(parts))
                for member, parts in self._shares.items()
            ),
        )
        return bounded(request)


def _subscribed(metadata: bytes) -> tuple[str, ...]:
    version = int.from_bytes(metadata[:2], "big", signed=True)
    known = ConsumerProtocolSubscription.SCHEMA.versions.last
    try:
        return codec.decode(
            ConsumerProtocolSubscription, metadata[2:], max(min(version, known), 0), allow_trailing=True
        ).topics
    except DecodeError:
        return ()


def _written(parts: Sequence[TopicPartition]) -> bytes:
    message = assignments.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            assignments.TopicPartition(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(parts).items()
        )
    )
    return (1).to_bytes(2, "big") + codec.encode(message, 1)
