"""Which coordinator serves a group here? There is one for each partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.broker.coordinators.service import CoordinatorService
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import BrokerServices
from headrace.config.node_config import NodeConfig
from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.requests import TopicsDeleted
from headrace.coordinator.hashing import partition_for
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult

if TYPE_CHECKING:
    from headrace.broker.coordinators.hosted import CoordinatorKind
    from headrace.coordinator.groups.machine import GroupCoordinator


class GroupService(CoordinatorService):
    """The group coordinators of this broker, by group."""

    def __init__(self, services: BrokerServices) -> None:
        super().__init__(services, lambda: _group_coordinators(services.config))

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
