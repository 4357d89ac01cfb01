"""The requests and responses of DescribeCluster (api key 60).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribeClusterRequest(Message, kind="request", api_key=60, versions="0-2", flexible="0+"):
    """Request of api key 60."""

    include_cluster_authorized_operations: bool = field("bool 0+", default=False)
    endpoint_type: int = field("int8 1+", default=1)
    include_fenced_brokers: bool = field("bool 2+", default=False)


class DescribeClusterBroker(Struct):
    """Part of `DescribeClusterResponse`."""

    broker_id: int = field("int32 0+ key entity=brokerId", default=0)
    host: str = field("string 0+", default="")
    port: int = field("int32 0+", default=0)
    rack: str | None = field("string 0+ nullable=0+", default=None)
    is_fenced: bool = field("bool 2+", default=False)


class DescribeClusterResponse(Message, kind="response", api_key=60, versions="0-2", flexible="0+"):
    """Response of api key 60."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    endpoint_type: int = field("int8 1+", default=1)
    cluster_id: str = field("string 0+", default="")
    controller_id: int = field("int32 0+ entity=brokerId", default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = field("[]DescribeClusterBroker 0+", default=())
    cluster_authorized_operations: int = field("int32 0+", default=-2147483648)
