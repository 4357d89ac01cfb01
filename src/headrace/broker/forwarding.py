"""Requests that somebody else answers: the active controller, or the leader of the metadata quorum."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred


def handle(request: object, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is; every check is the answerer's, whoever asks it."""
    return broker.forward(request, context)
