"""A member's sign of life, and whether it must join again (Heartbeat)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer at once. A coordinator that still loads says that all is well: it cannot know better."""

    def refused(error: ErrorCode) -> HeartbeatResponse:
        is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)

    if not request.group_id:
        return Reply(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    return broker.groups.ask(request.group_id, request, context, refused=refused)
