"""The requests and responses of AlterPartition (api key 56).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.schema import Message, Struct, field


class BrokerState(Struct):
    """Part of `AlterPartitionRequest`."""

    broker_id: int = field("int32 3+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 3+", default=-1)


class RequestPartitionData(Struct):
    """Part of `AlterPartitionRequest`."""

    partition_index: int = field("int32 0+", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    new_isr: tuple[int, ...] = field("[]int32 0-2 entity=brokerId", default=())
    new_isr_with_epochs: tuple[BrokerState, ...] = field("[]BrokerState 3+", default=())
    leader_recovery_state: int = field("int8 1+", default=0)
    partition_epoch: int = field("int32 0+", default=0)


class RequestTopicData(Struct):
    """Part of `AlterPartitionRequest`."""

    topic_id: Uuid = field("uuid 2+ ignorable", default=ZERO_UUID)
    partitions: tuple[RequestPartitionData, ...] = field("[]RequestPartitionData 0+", default=())


class AlterPartitionRequest(Message, kind="request", api_key=56, versions="2-3", flexible="0+"):
    """Request of api key 56."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 0+", default=-1)
    topics: tuple[RequestTopicData, ...] = field("[]RequestTopicData 0+", default=())


class ResponsePartitionData(Struct):
    """Part of `AlterPartitionResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    leader_id: int = field("int32 0+ entity=brokerId", default=0)
    leader_epoch: int = field("int32 0+", default=0)
    isr: tuple[int, ...] = field("[]int32 0+ entity=brokerId", default=())
    leader_recovery_state: int = field("int8 1+ ignorable", default=0)
    partition_epoch: int = field("int32 0+", default=0)


class ResponseTopicData(Struct):
    """Part of `AlterPartitionResponse`."""

    topic_id: Uuid = field("uuid 2+ ignorable", default=ZERO_UUID)
    partitions: tuple[ResponsePartitionData, ...] = field("[]ResponsePartitionData 0+", default=())


class AlterPartitionResponse(Message, kind="response", api_key=56, versions="2-3", flexible="0+"):
    """Response of api key 56."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    topics: tuple[ResponseTopicData, ...] = field("[]ResponseTopicData 0+", default=())
