"""Requests that the controller machine decides."""

from __future__ import annotations

from headrace.node.controller_server import ControllerServer
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest


def handle(request: object, context: RequestContext, server: ControllerServer) -> Deferred:
    """Answered when the decision is committed; a standby answers NOT_CONTROLLER."""
    if isinstance(request, BrokerHeartbeatRequest):
        connection = (context.listener, context.connection_id)
        server.watch.heard(request.broker_id, request.broker_epoch, connection, context.now_ms)
    elif isinstance(request, BrokerRegistrationRequest) and request.cluster_id == server.cluster_id:
        server.watch.succeeded(request.broker_id, request.incarnation_id, request.log_dirs)
    asked = getattr(request, "timeout_ms", None)
    wait_ms = asked if isinstance(asked, int) and asked > 0 else server.config.request_timeout_ms
    return server.local.ask(request, context, deadline_ms=context.now_ms + wait_ms)
