"""Which replicas are moving? The active controller tells (ListPartitionReassignments)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is; every check is the controller's, whoever asks it (B-C29)."""
    return broker.forward(request, context)
