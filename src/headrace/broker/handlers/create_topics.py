"""May these topics be created? The active controller decides (CreateTopics)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.create_topics import CreateTopicsRequest


def handle(request: CreateTopicsRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is; every check is the controller's, whoever asks it (B-C29)."""
    return broker.forward(request, context)
