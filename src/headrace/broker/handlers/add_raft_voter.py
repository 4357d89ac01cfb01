"""Shall a controller become a voter? The leader of the quorum decides (AddRaftVoter, KIP-853)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest


def handle(request: AddRaftVoterRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is."""
    return broker.forward(request, context)
