"""Membership of a group, and who the others are (JoinGroup)."""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_FIRST_WITHOUT_PROTOCOL = 7


def handle(request: JoinGroupRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Wait for the group, unless the coordinator answers at once."""

    def fit(response: JoinGroupResponse) -> JoinGroupResponse:
        """Before version 7 a missing protocol is an empty name, then null."""
        missing = None if context.api_version >= _FIRST_WITHOUT_PROTOCOL else ""
        return response if response.protocol_name else replace(response, protocol_name=missing)

    if not request.group_id:
        return Reply(fit(JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id)))
    if not broker.groups.has_room_for(request):
        error = ErrorCode.GROUP_MAX_SIZE_REACHED
        return Reply(fit(JoinGroupResponse(error_code=error, member_id=request.member_id)))
    return broker.groups.ask_in_turn(
        request.group_id, request, context, refused=lambda error: fit(JoinGroupResponse(error_code=error)), shape=fit
    )
