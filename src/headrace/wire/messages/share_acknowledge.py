"""The requests and responses of ShareAcknowledge (api key 79).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class AcknowledgementBatch(Struct):
    """Part of `ShareAcknowledgeRequest`."""

    first_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    acknowledge_types: tuple[int, ...] = field("[]int8 0+", default=())


class AcknowledgePartition(Struct):
    """Part of `ShareAcknowledgeRequest`."""

    partition_index: int = field("int32 0+ key", default=0)
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = field("[]AcknowledgementBatch 0+", default=())


class AcknowledgeTopic(Struct):
    """Part of `ShareAcknowledgeRequest`."""

    topic_id: Uuid = field("uuid 0+ key", default=ZERO_UUID)
    partitions: tuple[AcknowledgePartition, ...] = field("[]AcknowledgePartition 0+", default=())


class ShareAcknowledgeRequest(Message, kind="request", api_key=79, versions="1-2", flexible="0+"):
    """Request of api key 79."""

    group_id: str | None = field("string 0+ nullable=0+ entity=groupId", default=None)
    member_id: str | None = field("string 0+ nullable=0+", default="")
    share_session_epoch: int = field("int32 0+", default=0)
    is_renew_ack: bool = field("bool 2+", default=False)
    topics: tuple[AcknowledgeTopic, ...] = field("[]AcknowledgeTopic 0+", default=())


class NodeEndpoint(Struct):
    """Part of `ShareAcknowledgeResponse`."""

    node_id: int = field("int32 0+ key entity=brokerId", default=0)
    host: str = field("string 0+", default="")
    port: int = field("int32 0+", default=0)
    rack: str | None = field("string 0+ nullable=0+", default=None)


class LeaderIdAndEpoch(Struct):
    """Part of `ShareAcknowledgeResponse`."""

    leader_id: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)


class PartitionData(Struct):
    """Part of `ShareAcknowledgeResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    current_leader: LeaderIdAndEpoch = field("LeaderIdAndEpoch 0+", default=LeaderIdAndEpoch())


class ShareAcknowledgeTopicResponse(Struct):
    """Part of `ShareAcknowledgeResponse`."""

    topic_id: Uuid = field("uuid 0+ key", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class ShareAcknowledgeResponse(Message, kind="response", api_key=79, versions="1-2", flexible="0+"):
    """Response of api key 79."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    acquisition_lock_timeout_ms: int = field("int32 2+ ignorable", default=0)
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = field("[]ShareAcknowledgeTopicResponse 0+", default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 0+", default=())
