"""The groups that this broker coordinates (ListGroups)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import HandlerResult, InSteps, Reply
from headrace.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from headrace.coordinator.groups.machine import GroupCoordinator

_REST_AFTER = 100


def handle(request: ListGroupsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer at once, or in steps where there are many coordinators; filters came with version 4 (states) and 5 (types)."""
    coordinators = broker.groups.all_coordinators()
    if isinstance(coordinators, ErrorCode):
        return Reply(ListGroupsResponse(error_code=coordinators))
    return InSteps(_steps(request, coordinators), size=1, mostly_short=True)


def _steps(request: ListGroupsRequest, coordinators: list[GroupCoordinator]) -> Steps[HandlerResult]:
    """A rest after some hundred groups."""
    states, types = frozenset(request.states_filter), frozenset(request.types_filter)
    groups: list[ListedGroup] = []
    room = _REST_AFTER
    for each in coordinators:
        for some in each.list_groups(states=states, types=types):
            groups.extend(some)
            room -= max(1, len(some))
            if room <= 0:
                yield None
                room = _REST_AFTER
    return Reply(ListGroupsResponse(groups=tuple(groups)))
