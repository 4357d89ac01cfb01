"""Shall a voter leave the quorum? The leader of the quorum decides (RemoveRaftVoter, KIP-853)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest


def handle(request: RemoveRaftVoterRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Hand the request on as it is."""
    return broker.forward(request, context)
