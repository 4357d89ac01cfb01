"""Which groups does this broker coordinate? (ListGroups)"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, context: RequestContext, broker: Broker) -> Reply:
    """Answer at once; filters came with version 4 (states) and 5 (types)."""
    coordinators = broker.groups.all_coordinators()
    if isinstance(coordinators, ErrorCode):
        return Reply(ListGroupsResponse(error_code=coordinators))
    states, types = frozenset(request.states_filter), frozenset(request.types_filter)
    groups = [group for each in coordinators for group in each.list_groups(states=states, types=types)]
    return Reply(ListGroupsResponse(groups=tuple(groups)))
