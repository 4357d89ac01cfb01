"""The end of a leader epoch (OffsetForLeaderEpoch, KIP-101, KIP-320)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.epoch_ends import end_of_epoch
from headrace.broker.partitions import HostedPartition, check_leader_epoch
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext, broker: Broker) -> Reply:
    """Epoch and end are -1 when this log does not know the epoch."""
    return Reply(
        OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        _answer(topic.topic, partition, broker, is_replica=request.replica_id >= 0)
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )


def _answer(topic: str, asked: OffsetForLeaderPartition, broker: Broker, *, is_replica: bool) -> EpochEndOffset:
    """A replica is told also while clients are not served."""
    own = broker.partitions.get(topic, asked.partition)
    hosted: HostedPartition | ErrorCode
    if is_replica and own is not None and own.leader is not None:
        hosted = check_leader_epoch(asked.current_leader_epoch, own.leader_epoch) or own
    else:
        hosted = broker.partitions.leading(
            topic, asked.partition, broker.image, current_leader_epoch=asked.current_leader_epoch
        )
    if isinstance(hosted, ErrorCode):
        return EpochEndOffset(error_code=hosted, partition=asked.partition)
    leader = hosted.leader
    assert leader is not None, "leading returns leaders"
    end = end_of_epoch(leader.log, asked.leader_epoch, leader_epoch=leader.leader_epoch)
    if end is None:
        return EpochEndOffset(partition=asked.partition)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.offset)
