"""The requests and responses of ShareFetch (api key 78).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Records, Struct, field


class ForgottenTopic(Struct):
    """Part of `ShareFetchRequest`."""

    topic_id: Uuid = field("uuid 0+", default=ZERO_UUID)
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class AcknowledgementBatch(Struct):
    """Part of `ShareFetchRequest`."""

    first_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    acknowledge_types: tuple[int, ...] = field("[]int8 0+", default=())


class FetchPartition(Struct):
    """Part of `ShareFetchRequest`."""

    partition_index: int = field("int32 0+ key", default=0)
    partition_max_bytes: int = field("int32 0", default=0)
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = field("[]AcknowledgementBatch 0+", default=())


class FetchTopic(Struct):
    """Part of `ShareFetchRequest`."""

    topic_id: Uuid = field("uuid 0+ key", default=ZERO_UUID)
    partitions: tuple[FetchPartition, ...] = field("[]FetchPartition 0+", default=())


class ShareFetchRequest(Message, kind="request", api_key=78, versions="1-2", flexible="0+"):
    """Request of api key 78."""

    group_id: str | None = field("string 0+ nullable=0+ entity=groupId", default=None)
    member_id: str | None = field("string 0+ nullable=0+", default="")
    share_session_epoch: int = field("int32 0+", default=0)
    max_wait_ms: int = field("int32 0+", default=0)
    min_bytes: int = field("int32 0+", default=0)
    max_bytes: int = field("int32 0+", default=2147483647)
    max_records: int = field("int32 1+", default=0)
    batch_size: int = field("int32 1+", default=0)
    share_acquire_mode: int = field("int8 2+ ignorable", default=0)
    is_renew_ack: bool = field("bool 2+", default=False)
    topics: tuple[FetchTopic, ...] = field("[]FetchTopic 0+", default=())
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field("[]ForgottenTopic 0+", default=())


class NodeEndpoint(Struct):
    """Part of `ShareFetchResponse`."""

    node_id: int = field("int32 0+ key entity=brokerId", default=0)
    host: str = field("string 0+", default="")
    port: int = field("int32 0+", default=0)
    rack: str | None = field("string 0+ nullable=0+", default=None)


class AcquiredRecords(Struct):
    """Part of `ShareFetchResponse`."""

    first_offset: int = field("int64 0+", default=0)
    last_offset: int = field("int64 0+", default=0)
    delivery_count: int = field("int16 0+", default=0)


class LeaderIdAndEpoch(Struct):
    """Part of `ShareFetchResponse`."""

    leader_id: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)


class PartitionData(Struct):
    """Part of `ShareFetchResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    acknowledge_error_code: int = field("int16 0+", default=0)
    acknowledge_error_message: str | None = field("string 0+ nullable=0+", default=None)
    current_leader: LeaderIdAndEpoch = field("LeaderIdAndEpoch 0+", default=LeaderIdAndEpoch())
    records: Records | None = field("records 0+ nullable=0", default=None)
    acquired_records: tuple[AcquiredRecords, ...] = field("[]AcquiredRecords 0+", default=())


class ShareFetchableTopicResponse(Struct):
    """Part of `ShareFetchResponse`."""

    topic_id: Uuid = field("uuid 0+ key", default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field("[]PartitionData 0+", default=())


class ShareFetchResponse(Message, kind="response", api_key=78, versions="1-2", flexible="0+"):
    """Response of api key 78."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default=None)
    acquisition_lock_timeout_ms: int = field("int32 1+", default=0)
    responses: tuple[ShareFetchableTopicResponse, ...] = field("[]ShareFetchableTopicResponse 0+", default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field("[]NodeEndpoint 0+", default=())
