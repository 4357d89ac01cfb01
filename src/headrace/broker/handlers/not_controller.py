"""Registrations and heartbeats that came to a broker listener are answered NOT_CONTROLLER (S1-52)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


def handle(request: object, context: RequestContext, broker: Broker) -> Reply:
    """The API's own response with code 41."""
    if isinstance(request, BrokerRegistrationRequest):
        return Reply(BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER))
    return Reply(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
