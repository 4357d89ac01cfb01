"""The requests and responses of Produce (api key 0).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Records, Struct, field


class PartitionProduceData(Struct):
    """Part of `ProduceRequest`."""

    index: int = field("int32 0+", default=0)
    records: Records | None = field("records 0+ nullable=0+", default=None)


class TopicProduceData(Struct):
    """Part of `ProduceRequest`."""

    name: str = field("string 0-12 ignorable key entity=topicName", default="")
    topic_id: Uuid = field("uuid 13+ ignorable key", default=ZERO_UUID)
    partition_data: tuple[PartitionProduceData, ...] = field("[]PartitionProduceData 0+", default=())


class ProduceRequest(Message, kind="request", api_key=0, versions="3-13", flexible="9+"):
    """Request of api key 0."""

    transactional_id: str | None = field("string 3+ nullable=3+ entity=transactionalId", default=None)
    acks: int = field("int16 0+", default=0)
    timeout_ms: int = field("int32 0+", default=0)
    topic_data: tuple[TopicProduceData, ...] = field("[]TopicProduceData 0+", default=())


class NodeEndpoint(Struct):
    """Part of `ProduceResponse`."""

    node_id: int = field("int32 10+ key entity=brokerId", default=0)
    host: str = field("string 10+", default="")
    port: int = field("int32 10+", default=0)
    rack: str | None = field("string 10+ nullable=10+", default=None)


class LeaderIdAndEpoch(Struct):
    """Part of `ProduceResponse`."""

    leader_id: int = field("int32 10+ entity=brokerId", default=-1)
    leader_epoch: int = field("int32 10+", default=-1)


class BatchIndexAndErrorMessage(Struct):
    """Part of `ProduceResponse`."""

    batch_index: int = field("int32 8+", default=0)
    batch_index_error_message: str | None = field("string 8+ nullable=8+", default=None)


class PartitionProduceResponse(Struct):
    """Part of `ProduceResponse`."""

    index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    base_offset: int = field("int64 0+", default=0)
    log_append_time_ms: int = field("int64 2+ ignorable", default=-1)
    log_start_offset: int = field("int64 5+ ignorable", default=-1)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = field("[]BatchIndexAndErrorMessage 8+ ignorable", default=())
    error_message: str | None = field("string 8+ nullable=8+ ignorable", default=None)
    current_leader: LeaderIdAndEpoch = field("LeaderIdAndEpoch 10+ tag=0@10+", default=LeaderIdAndEpoch())


class TopicProduceResponse(Struct):
    """Part of `ProduceResponse`."""

    name: str = field("string 0-12 ignorable key entity=topicName", default="")
    topic_id: Uuid = field("uuid 13+ ignorable key", default=ZERO_UUID)
    partition_responses: tuple[PartitionProduceResponse, ...] = field("[]PartitionProduceResponse 0+", default=())


class ProduceResponse(Message, kind="response", api_key=0, versions="3-13", flexible="9+"):
    """Response of api key 0."""

    responses: tuple[TopicProduceResponse, ...] = field("[]TopicProduceResponse 0+", default=())
    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 10+ tag=0@10+", default=())
