"""Members of consumer groups in a simulated cluster: what they send travels as bytes, and what they were told is judged by `checkers.groups`.

Each looks for the coordinator, joins, shares out the partitions where it leads, and then commits positions, reads them back and stays alive. Now and
then it leaves, is silent for longer than its session, or goes on as if it still were in the generation before. Members never rest: a group that lives
must come to rest with all of them.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace.client.groups import CONSUMER_PROTOCOL, read_assignment
from headrace.client.membership import RANGE, range_assignment
from headrace.core.error_code import ErrorCode
from headrace.sim.clients import Client
from headrace.sim.record_clients import PARTITIONS, topic_name
from headrace.sim.serving import BROKER_PORT
from headrace.wire import codec
from headrace.wire.messages import create_topics, join_group, leave_group, offset_commit, offset_fetch, sync_group
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.protocols import consumer_protocol_assignment as assignments
from headrace.wire.protocols.consumer_protocol_subscription import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from headrace.core.ids import TopicPartition
    from headrace.sim.node import SimNode
    from headrace.sim.observation import Outcome
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message

OFFSETS_TOPIC: Final = "__consumer_offsets"
GROUPS: Final = 2
"""Members are in one or the other, by turns."""
_STATIC: Final = (2, 3, 4)
"""Members with an instance id; the first and the last of these are one, said twice."""
_VERSIONS: Final[dict[str, tuple[int, ...]]] = {
    "find": (0, 2, 3, 4),
    "join": (5, 6, 7, 9),
    "sync": (3, 4, 5),
    "heartbeat": (3, 4),
    "commit": (7, 8, 9),
    "fetch": (5, 7, 8, 9),
    "leave": (3, 4, 5),
}
_WITH_KEYS: Final = 4
_WITH_GROUPS: Final = 8
_SESSION_MS: Final = 1_500
_REBALANCE_MS: Final = 1_200
_CALL_MS: Final = 4_000
_LOST: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_REFUSED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class _Phase(Enum):
    """Where a member stands."""

    LOOKING = "looking"
    JOINING = "joining"
    SYNCING = "syncing"
    MEMBER = "member"


def group_name(number: int) -> str:
    """The group of the member with this number."""
    return f"group-{number % GROUPS}"


def token_of(member: int, written: int) -> str:
    """What a commit says of itself, so that whoever reads it knows which it was."""
    return f"{member}.{written}"


class GroupMember(Client):
    """One member. Some are static ones, and two of these share an instance id: only the later one may stay."""

    def __init__(self, cluster: Stage, client_id: int, *, number: int, copies: int) -> None:
        super().__init__(cluster, client_id)
        self._number = number
        self._copies = copies
        self._group = group_name(number)
        self._topic = topic_name(0, copies=copies)
        self._instance: str | None = "static" if number in _STATIC else None
        self._phase = _Phase.LOOKING
        self._coordinator = -1
        self._member_id = ""
        self._generation = -1
        self._shares: dict[str, list[TopicPartition]] = {}
        self._owned: tuple[TopicPartition, ...] = ()
        self._positions: dict[int, int] = {}
        self._written = 0
        self._versions = {name: self.chance.choice(known) for name, known in _VERSIONS.items()}

    @property
    def is_at_rest(self) -> bool:
        """Never: who says nothing is out of its group."""
        return False

    def act(self) -> None:
        """The next call of this phase."""
        if self._phase is _Phase.LOOKING:
            self._look()
            return
        node = self.cluster.nodes.get(self._coordinator)
        if node is None:
            self._phase = _Phase.LOOKING
            self._again()
        elif self._phase is _Phase.JOINING:
            self._ask(node, self._join(), "join")
        elif self._phase is _Phase.SYNCING:
            self._ask(node, self._sync(), "sync")
        else:
            self._live(node)

    def _ask(self, node: SimNode, request: Message, what: str) -> None:
        self.ask(node, request, BROKER_PORT, timeout_ms=_CALL_MS, version=self._versions[what])

    def _again(self) -> None:
        rests = 150 if self.cluster.clients_rest else max(20, self.cluster.think_ms)
        self.begin(self.chance.randrange(rests // 2, 2 * rests))

    # --- calls ---

    def _look(self) -> None:
        """Where the coordinator is, by any broker; the offsets topic is made by whoever comes first, by hand or by asking."""
        images = self.images()
        is_there = any(OFFSETS_TOPIC in image.topics.by_name for image in images)
        if images and not is_there and self._number == 0:
            self.ask_controller(self._creation())
            return
        brokers = [node for node in self.cluster.nodes.values() if node.config.is_broker]
        keys = {"coordinator_keys": (self._group,)} if self._versions["find"] >= _WITH_KEYS else {"key": self._group}
        self._ask(self.chance.choice(brokers), FindCoordinatorRequest(key_type=0, **keys), "find")

    def _creation(self) -> Message:
        """As an operator makes it who wants two copies of each position."""
        limits = self.cluster.limits
        settings = {"cleanup.policy": "compact", "compression.type": "producer"}
        settings["min.insync.replicas"] = "2" if self._copies > 1 else "1"
        topic = create_topics.CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=limits.offsets_topic_num_partitions,
            replication_factor=self._copies,
            configs=tuple(create_topics.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()),
        )
        return create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=2_000)

    def _join(self) -> Message:
        subscription = ConsumerProtocolSubscription(topics=(self._topic,))
        metadata = (1).to_bytes(2, "big") + codec.encode(subscription, 1)
        return join_group.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=(join_group.JoinGroupRequestProtocol(name=RANGE, metadata=metadata),),
        )

    def _sync(self) -> Message:
        return sync_group.SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=RANGE,
            assignments=tuple(
                sync_group.SyncGroupRequestAssignment(member_id=member, assignment=_written(parts))
                for member, parts in self._shares.items()
            ),
        )

    def _live(self, node: SimNode) -> None:
        """Commit, read, stay alive; while faults go on, now and then leave, fall silent, or claim what another now has."""
        drawn = self.chance.random()
        is_quiet = self.cluster.is_healing
        if drawn < 0.03 and not is_quiet:
            self._ask(node, self._leave(), "leave")
        elif drawn < 0.06 and not is_quiet:
            self.begin(self.chance.randrange(_SESSION_MS // 2, 2 * _SESSION_MS))
            if self.chance.random() < 0.5:
                self._forget()
        elif drawn < 0.5 and self._owned and not self.cluster.clients_rest:
            self._ask(node, self._commit(), "commit")
        elif drawn < 0.7 and not self.cluster.clients_rest:
            self._ask(node, self._read(), "fetch")
        else:
            beat = HeartbeatRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance,
            )
            self._ask(node, beat, "heartbeat")

    def _leave(self) -> Message:
        gone = leave_group.MemberIdentity(member_id=self._member_id, group_instance_id=self._instance)
        return leave_group.LeaveGroupRequest(group_id=self._group, members=(gone,))

    def _commit(self) -> Message:
        """Positions behind those before, each with a token that nobody else wrote."""
        partitions = []
        for one in self._owned:
            self._written += 1
            offset = self._positions.get(one.partition, 0) + self.chance.randrange(0, 10)
            self._positions[one.partition] = offset
            partitions.append(
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=one.partition,
                    committed_offset=offset,
                    committed_metadata=token_of(self._number, self._written),
                )
            )
        topic = offset_commit.OffsetCommitRequestTopic(name=self._topic, partitions=tuple(partitions))
        return offset_commit.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            topics=(topic,),
        )

    def _read(self) -> Message:
        every = tuple(range(PARTITIONS))
        if self._versions["fetch"] >= _WITH_GROUPS:
            topics = (offset_fetch.OffsetFetchRequestTopics(name=self._topic, partition_indexes=every),)
            group = offset_fetch.OffsetFetchRequestGroup(group_id=self._group, topics=topics)
            return offset_fetch.OffsetFetchRequest(groups=(group,))
        topic = offset_fetch.OffsetFetchRequestTopic(name=self._topic, partition_indexes=every)
        return offset_fetch.OffsetFetchRequest(group_id=self._group, topics=(topic,))

    # --- answers ---

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """What the answer says of the own place."""
        if isinstance(response, FindCoordinatorResponse):
            self._found(response)
        elif response is None:
            self._phase = _Phase.LOOKING if self._member_id == "" or self.chance.random() < 0.7 else self._phase
        elif not isinstance(response, create_topics.CreateTopicsResponse):
            self._take(response)
        self._again()

    def _found(self, response: FindCoordinatorResponse) -> None:
        told: Any = response.coordinators[0] if response.coordinators else response
        if told.error_code:
            return
        if self._coordinator not in (-1, told.node_id):
            self.cluster.markers.hit("group coordinator moved")
        self._coordinator = told.node_id
        self._phase = _Phase.MEMBER if self._owned else _Phase.JOINING

    def _take(self, response: Any) -> None:
        code = code_of(response)
        if code is not ErrorCode.NONE:
            self._refused(response, code)
        elif isinstance(response, join_group.JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, sync_group.SyncGroupResponse):
            self._owned = read_assignment(bytes(response.assignment))
            self._positions.clear()
            self._phase = _Phase.MEMBER
        elif isinstance(response, leave_group.LeaveGroupResponse):
            self._forget()
        elif not isinstance(response, HeartbeatResponse):
            self._learn(response)

    def _refused(self, response: Any, code: ErrorCode) -> None:
        """Look for the coordinator, join again, or come back as somebody else; anything else is tried again."""
        if code in _LOST:
            self._phase = _Phase.LOOKING
        elif code in _REFUSED:
            if code is ErrorCode.FENCED_INSTANCE_ID:
                self.cluster.markers.hit("static member fenced")
                self._instance = None
            self._forget()
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            is_commit = isinstance(response, offset_commit.OffsetCommitResponse)
            if not is_commit or self.chance.random() < 0.5:
                self._rejoin()

    def _learn(self, response: Any) -> None:
        """Go on where the group is."""
        for partition, offset, _ in positions_of(response):
            self._positions[partition] = max(offset, self._positions.get(partition, 0))

    def _joined(self, response: join_group.JoinGroupResponse) -> None:
        self._member_id, self._generation = response.member_id, response.generation_id
        self._shares = {}
        if response.leader == response.member_id and not response.skip_assignment:
            wanted = {member.member_id: (self._topic,) for member in response.members}
            self._shares = range_assignment(wanted, {self._topic: PARTITIONS})
        self._phase = _Phase.SYNCING

    def _rejoin(self) -> None:
        self._owned, self._phase = (), _Phase.JOINING

    def _forget(self) -> None:
        """Come back as somebody new; a static one under its instance id."""
        self._member_id = ""
        self._rejoin()


def code_of(response: Any) -> ErrorCode:
    """The first error of a coordinator's answer."""
    code = getattr(response, "error_code", 0)
    if not code and isinstance(response, offset_commit.OffsetCommitResponse | offset_fetch.OffsetFetchResponse):
        groups = getattr(response, "groups", ())
        codes = [group.error_code for group in groups]
        topics = [topic for each in (groups or (response,)) for topic in each.topics]
        codes += [partition.error_code for topic in topics for partition in topic.partitions]
        code = next((each for each in codes if each), 0)
    if not code and isinstance(response, leave_group.LeaveGroupResponse):
        code = next((each.error_code for each in response.members if each.error_code), 0)
    return ErrorCode(code)


def positions_of(response: Any) -> list[tuple[int, int, str]]:
    """Partition, offset and token of each position that is read; -1 where there is none."""
    if not isinstance(response, offset_fetch.OffsetFetchResponse):
        return []
    topics = [topic for each in (response.groups or (response,)) for topic in each.topics]
    return [
        (partition.partition_index, partition.committed_offset, partition.metadata or "")
        for topic in topics
        for partition in topic.partitions
        if not partition.error_code
    ]


def _written(parts: list[TopicPartition]) -> bytes:
    numbers: dict[str, list[int]] = {}
    for part in parts:
        numbers.setdefault(part.topic, []).append(part.partition)
    message = assignments.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            assignments.TopicPartition(topic=topic, partitions=tuple(every)) for topic, every in numbers.items()
        )
    )
    return (1).to_bytes(2, "big") + codec.encode(message, 1)
