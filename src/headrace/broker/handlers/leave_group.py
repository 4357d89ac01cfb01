"""Members that leave their group (LeaveGroup)."""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_FIRST_WITH_LIST = 3


def handle(request: LeaveGroupRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer when what the members' leaving wrote is committed. Before version 3 one member leaves, and its error is the answer's."""
    one_member = context.api_version < _FIRST_WITH_LIST

    def fit(response: LeaveGroupResponse) -> LeaveGroupResponse:
        if one_member and response.members:
            return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)
        return response

    if not request.group_id:
        return Reply(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    if one_member:
        request = replace(request, members=(MemberIdentity(member_id=request.member_id),))
    return broker.groups.ask_in_turn(
        request.group_id, request, context, refused=lambda error: LeaveGroupResponse(error_code=error), shape=fit
    )
