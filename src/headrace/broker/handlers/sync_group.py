"""Which part of the work is a member's, in this generation? (SyncGroup)"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.reply import HandlerResult, Reply
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(request: SyncGroupRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Wait for the leader's assignment, unless the coordinator answers at once."""
    if not request.group_id:
        return Reply(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    return broker.groups.ask(
        request.group_id, request, context, refused=lambda error: SyncGroupResponse(error_code=error)
    )
