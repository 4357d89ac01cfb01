"""The state and the members of groups (DescribeGroups)."""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.authorized_operations import GROUP_OPERATIONS
from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


def handle(request: DescribeGroupsRequest, context: RequestContext, broker: Broker) -> Reply:
    """Answer at once with what each group's coordinator knows."""
    described = []
    for group_id in request.groups:
        coordinator = broker.groups.coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode):
            described.append(DescribedGroup(group_id=group_id, error_code=coordinator))
            continue
        group = coordinator.describe(group_id, api_version=context.api_version)
        if request.include_authorized_operations and not group.error_code:
            group = replace(group, authorized_operations=GROUP_OPERATIONS)
        described.append(group)
    return Reply(DescribeGroupsResponse(groups=tuple(described)))
