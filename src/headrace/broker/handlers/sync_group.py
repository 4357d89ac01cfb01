"""A member's part of the work in this generation (SyncGroup)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_FIRST_WITH_PROTOCOL = 5


def handle(request: SyncGroupRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Wait for the leader's assignment, unless the coordinator answers at once. From version 5 on the protocol is named (KIP-559)."""
    if context.api_version >= _FIRST_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return Reply(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not request.group_id:
        return Reply(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    return broker.groups.ask_in_turn(
        request.group_id, request, context, refused=lambda error: SyncGroupResponse(error_code=error)
    )
