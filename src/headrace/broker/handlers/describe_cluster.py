"""The brokers that make up the cluster (DescribeCluster, KIP-700, KIP-919)."""

from __future__ import annotations

from headrace.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from headrace.broker.broker import Broker
from headrace.broker.topic_listing import alive_end_points, rack_of
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(request: DescribeClusterRequest, context: RequestContext, broker: Broker) -> Reply:
    """The brokers that clients of this listener can reach; with `include_fenced_brokers` the fenced ones too."""
    refused = wrong_endpoint_type(request, context, expected=BROKERS)
    if refused is not None:
        return Reply(refused)
    image = broker.image
    alive = alive_end_points(image, context.listener)
    brokers = []
    for broker_id in sorted(image.cluster.brokers):
        registered = image.cluster.brokers[broker_id]
        end_point = registered.end_point(context.listener)
        if end_point is None or (registered.fenced and not request.include_fenced_brokers):
            continue
        brokers.append(
            DescribeClusterBroker(
                broker_id=broker_id,
                host=end_point.host,
                port=end_point.port,
                rack=rack_of(image, broker_id),
                is_fenced=registered.fenced and context.api_version >= 2,
            )
        )
    return Reply(
        DescribeClusterResponse(
            endpoint_type=BROKERS,
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id if broker.node_id in alive else next(iter(alive), -1),
            brokers=tuple(brokers),
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
            ),
        )
    )


def wrong_endpoint_type(
    request: DescribeClusterRequest, context: RequestContext, *, expected: int
) -> DescribeClusterResponse | None:
    """The refusal when this endpoint is not of the type that was asked for."""
    if request.endpoint_type == expected or (context.api_version == 0 and expected == BROKERS):
        return None
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        error, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
    else:
        kinds = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
        error = ErrorCode.INVALID_REQUEST if context.api_version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            f"The request was sent to an endpoint of type {kinds[expected]}, "
            f"but we wanted an endpoint of type {kinds[request.endpoint_type]}"
        )
    return DescribeClusterResponse(
        error_code=error, error_message=message, endpoint_type=expected if context.api_version else 1
    )
