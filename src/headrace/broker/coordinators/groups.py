"""The group coordinators of this broker: one for each partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.coordinators.service import CoordinatorService
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import BrokerServices
from headrace.config.node_config import NodeConfig
from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.member import size_of_member
from headrace.coordinator.groups.requests import TopicsDeleted
from headrace.coordinator.groups.shard import GroupCounts
from headrace.coordinator.hashing import partition_for
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import HandlerResult, InSteps
from headrace.wire.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from headrace.broker.coordinators.hosted import CoordinatorKind
    from headrace.coordinator.groups.machine import GroupCoordinator

MOST_MEMBER_BYTES: Final = 512 << 20
"""Of what the members of all groups on this broker say of themselves, those included that have gone and whose sessions last."""
_FEW_MEMBERS: Final = 30


class GroupService(CoordinatorService):
    """The group coordinators of this broker, by group."""

    def __init__(self, services: BrokerServices) -> None:
        super().__init__(services, lambda: _group_coordinators(services.config))
        self._former = GroupCounts()

    def _gone(self, coordinator: GroupCoordinator) -> None:
        self._former.add(coordinator.shard.counts)

    def counts(self) -> GroupCounts:
        """What happened to groups here since the start. Cost: the coordinators."""
        total = GroupCounts()
        for each in (self._former, *(each.shard.counts for each in self._coordinators())):
            total.add(each)
        return total

    def states(self) -> Counter[str]:
        """How many groups are in each state. Cost: the groups."""
        return Counter(group.state.value for each in self._coordinators() for group in each.shard.groups.values())

    def position_count(self) -> int:
        """How many positions are stored. Cost: the coordinators."""
        return sum(each.shard.state.position_count for each in self._coordinators())

    def _coordinators(self) -> list[GroupCoordinator]:
        coordinators: list[Any] = [each.runtime.coordinator for each in self._hosted.values()]
        return coordinators

    def topics_deleted(self, topics: Iterable[tuple[str, Uuid]]) -> None:
        """Topics are gone, and with them the positions of every group in them."""
        self.image_changed(TopicsDeleted(topics=tuple(topics)))

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that owns the group."""
        topic = self._services.image.topics.by_name.get(OFFSETS_TOPIC)
        partitions = len(topic.partitions) if topic is not None else self._services.config.offsets_topic_num_partitions
        return partition_for(group_id, partitions)

    def coordinator_of(self, group_id: str) -> GroupCoordinator | ErrorCode:
        """The coordinator that serves the group here, or the error that sends its client elsewhere or makes it wait."""
        found: GroupCoordinator | ErrorCode = self.serving(self.partition_of(group_id))
        return found

    def all_coordinators(self) -> list[GroupCoordinator] | ErrorCode:
        """Every coordinator that serves here; COORDINATOR_LOAD_IN_PROGRESS as long as one is not ready."""
        return self.all_serving()

    def has_room_for(self, request: JoinGroupRequest) -> bool:
        """Whether what the members of all groups here say of themselves stays within MOST_MEMBER_BYTES with this one; who is here and says no more than before may stay."""
        size = size_of_member((protocol.name, protocol.metadata) for protocol in request.protocols)
        coordinator = self.coordinator_of(request.group_id)
        if not isinstance(coordinator, ErrorCode):
            size -= coordinator.size_of_member(request)
        held = sum(each.runtime.shard.kept_bytes for each in self._hosted.values())
        return size <= 0 or held + size <= MOST_MEMBER_BYTES

    def ask_in_turn(
        self,
        group_id: str,
        request: Any,
        context: RequestContext,
        *,
        refused: Callable[[ErrorCode], object],
        shape: Callable[[Any], object] | None = None,
    ) -> HandlerResult:
        """The same for what may look at every member: in a group of many, or of much metadata, requests of many connections take turns (M6)."""
        coordinator = self.coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode) or coordinator.member_count(group_id) <= _FEW_MEMBERS:
            return self.ask(group_id, request, context, refused=refused, shape=shape)

        def steps() -> Steps[HandlerResult]:
            yield None
            return self.ask(group_id, request, context, refused=refused, shape=shape)

        return InSteps(steps(), size=1)

    def ask(
        self,
        group_id: str,
        request: Any,
        context: RequestContext,
        *,
        refused: Callable[[ErrorCode], object],
        shape: Callable[[Any], object] | None = None,
    ) -> HandlerResult:
        """Give a request to its group's coordinator. The reply is there at once, or comes when it is committed or the group is complete."""
        return self.give(self.partition_of(group_id), request, context, refused=refused, shape=shape)


def group_config(config: NodeConfig) -> GroupConfig:
    """The coordinator's settings out of the node's."""
    return GroupConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_size=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        commit_timeout_ms=config.offsets_commit_timeout_ms,
    )


def _group_coordinators(config: NodeConfig) -> CoordinatorKind:
    from headrace.broker.coordinators.hosted import CoordinatorKind  # what they need is imported with the first one
    from headrace.coordinator.groups.machine import group_runtime

    settings = group_config(config)
    return CoordinatorKind(
        topic=OFFSETS_TOPIC, codec=config.offsets_topic_compression_codec, make=lambda: group_runtime(settings)
    )
