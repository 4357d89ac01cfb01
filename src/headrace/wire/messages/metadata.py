"""The requests and responses of Metadata (api key 3).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class MetadataRequestTopic(Struct):
    """Part of `MetadataRequest`."""

    topic_id: Uuid = field("uuid 10+ ignorable", default=ZERO_UUID)
    name: str | None = field("string 0+ nullable=10+ entity=topicName", default="")


class MetadataRequest(Message, kind="request", api_key=3, versions="0-13", flexible="9+"):
    """Request of api key 3."""

    topics: tuple[MetadataRequestTopic, ...] | None = field("[]MetadataRequestTopic 0+ nullable=1+", default=())
    allow_auto_topic_creation: bool = field("bool 4+", default=True)
    include_cluster_authorized_operations: bool = field("bool 8-10", default=False)
    include_topic_authorized_operations: bool = field("bool 8+", default=False)


class MetadataResponsePartition(Struct):
    """Part of `MetadataResponse`."""

    error_code: int = field("int16 0+", default=0)
    partition_index: int = field("int32 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 7+ ignorable", default=-1)
    replica_nodes: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    isr_nodes: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    offline_replicas: tuple[int, ...] = field("[]int32 5+ ignorable entity=brokerId", default=())


class MetadataResponseTopic(Struct):
    """Part of `MetadataResponse`."""

    error_code: int = field("int16 0+", default=0)
    name: str | None = field("string 0+ nullable=12+ key entity=topicName", default="")
    topic_id: Uuid = field("uuid 10+ ignorable", default=ZERO_UUID)
    is_internal: bool = field("bool 1+ ignorable", default=False)
    partitions: tuple[MetadataResponsePartition, ...] = field("[]MetadataResponsePartition 0+", default=())
    topic_authorized_operations: int = field("int32 8+", default=-2147483648)


class MetadataResponseBroker(Struct):
    """Part of `MetadataResponse`."""

    node_id: int = field("int32 0+ key entity=brokerId", default=0)
    host: str = field("string 0+", default="")
    port: int = field("int32 0+", default=0)
    rack: str | None = field("string 1+ nullable=1+ ignorable", default=None)


class MetadataResponse(Message, kind="response", api_key=3, versions="0-13", flexible="9+"):
    """Response of api key 3."""

    throttle_time_ms: int = field("int32 3+ ignorable", default=0)
    brokers: tuple[MetadataResponseBroker, ...] = field("[]MetadataResponseBroker 0+", default=())
    cluster_id: str | None = field("string 2+ nullable=2+ ignorable", default=None)
    controller_id: int = field("int32 1+ ignorable entity=brokerId", default=-1)
    topics: tuple[MetadataResponseTopic, ...] = field("[]MetadataResponseTopic 0+", default=())
    cluster_authorized_operations: int = field("int32 8-10", default=-2147483648)
    error_code: int = field("int16 13+ ignorable", default=0)
    metadata_offset: int = field("int64 9+ tag=10000@9+ ignorable", default=-1)
