"""May somebody be a member of a group, and who are the others? (JoinGroup)"""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.reply import HandlerResult, Reply
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_FIRST_WITHOUT_PROTOCOL = 7


def handle(request: JoinGroupRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Wait for the group, unless the coordinator answers at once."""

    def fit(response: JoinGroupResponse) -> JoinGroupResponse:
        """Before version 7 a missing protocol is an empty name."""
        if response.protocol_name is None and context.api_version < _FIRST_WITHOUT_PROTOCOL:
            return replace(response, protocol_name="")
        return response

    if not request.group_id:
        return Reply(JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id))
    return broker.groups.ask(
        request.group_id, request, context, refused=lambda error: JoinGroupResponse(error_code=error), shape=fit
    )
