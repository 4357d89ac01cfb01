"""May these partitions get another leader? The active controller decides (ElectLeaders)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.elect_leaders import ElectLeadersRequest


def handle(request: ElectLeadersRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is; every check is the controller's, whoever asks it (B-C29)."""
    return broker.forward(request, context)
