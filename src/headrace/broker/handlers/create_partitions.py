"""May these topics get more partitions? The active controller decides (CreatePartitions)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.create_partitions import CreatePartitionsRequest


def handle(request: CreatePartitionsRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is; every check is the controller's, whoever asks it (B-C29)."""
    return broker.forward(request, context)
