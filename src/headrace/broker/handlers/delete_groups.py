"""The deletion of groups with all their positions (DeleteGroups)."""

from __future__ import annotations

from itertools import chain

from headrace.broker.broker import Broker
from headrace.coordinator.groups.requests import DeleteGroups
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.gather import gather
from headrace.rpc.reply import HandlerResult
from headrace.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(request: DeleteGroupsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Ask every coordinator that owns some of the groups; answer when all deletions are committed."""
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(broker.groups.partition_of(group_id), []).append(group_id)
    parts = [_delete(tuple(group_ids), context, broker) for group_ids in by_partition.values()]
    return gather(parts, lambda results: DeleteGroupsResponse(results=tuple(chain.from_iterable(results))))


def _delete(group_ids: tuple[str, ...], context: RequestContext, broker: Broker) -> HandlerResult:
    def refused(error: ErrorCode) -> tuple[DeletableGroupResult, ...]:
        return tuple(DeletableGroupResult(group_id=group_id, error_code=error) for group_id in group_ids)

    return broker.groups.ask(group_ids[0], DeleteGroups(group_ids=group_ids), context, refused=refused)
