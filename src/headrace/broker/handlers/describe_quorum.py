"""The voters of the metadata log, who follows it, and how far each is (DescribeQuorum, KIP-595)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(request: DescribeQuorumRequest, context: RequestContext, broker: Broker) -> Deferred | Reply:
    """Only the leader of the quorum knows: it is asked. What this very node knows of the quorum it tells itself (decision 17)."""
    if request.wants_node_view and not request.topics and broker.quorum_view is not None:
        return Reply(DescribeQuorumResponse(error_message="", node_views=(broker.quorum_view(),)))
    return broker.forward(request, context)
