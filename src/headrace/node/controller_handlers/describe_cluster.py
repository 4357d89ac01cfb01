"""The controllers that make up the quorum (DescribeCluster with endpoint type 2, KIP-919)."""

from __future__ import annotations

from headrace.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from headrace.broker.handlers.describe_cluster import CONTROLLERS, wrong_endpoint_type
from headrace.node.controller_server import ControllerServer
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def handle(request: DescribeClusterRequest, context: RequestContext, server: ControllerServer) -> Reply:
    """The controllers with their addresses on this listener, and which of them is active."""
    refused = wrong_endpoint_type(request, context, expected=CONTROLLERS)
    if refused is not None:
        return Reply(refused)
    return Reply(
        DescribeClusterResponse(
            endpoint_type=CONTROLLERS,
            cluster_id=server.cluster_id,
            controller_id=server.leader_id(),
            brokers=tuple(
                DescribeClusterBroker(broker_id=node_id, host=host, port=port)
                for node_id, host, port in server.controller_addresses(context.listener)
            ),
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
            ),
        )
    )
