"""Who votes on the metadata log, who follows it, and how far is each? (DescribeQuorum, KIP-595)"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.reply import Deferred
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest


def handle(request: DescribeQuorumRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Only the leader of the quorum knows: it is asked."""
    return broker.forward(request, context)
