"""May these features be set to other levels? The active controller decides (UpdateFeatures)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.update_features import UpdateFeaturesRequest


def handle(request: UpdateFeaturesRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is; every check is the controller's, whoever asks it (B-C29)."""
    return broker.forward(request, context)
