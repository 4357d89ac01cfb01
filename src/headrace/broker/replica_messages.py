"""The messages between a follower and its leader: what its fetches ask, and what the responses say (KIP-227, KIP-903)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import SendFailure
from headrace.replication.follower_events import PartitionTold
from headrace.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic, PartitionData
from headrace.wire.messages.list_offsets import ListOffsetsResponse

if TYPE_CHECKING:
    from headrace.replication.fetch_plan import PlannedFetch
    from headrace.wire.schema import Message


def asked_topics(plan: PlannedFetch, max_bytes: int) -> tuple[FetchTopic, ...]:
    """What a Fetch asks for."""
    topics: dict[Uuid, list[FetchPartition]] = {}
    for (topic_id, number), position in plan.asks:
        asked = FetchPartition(
            partition=number,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.fetch_offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=max_bytes,
        )
        topics.setdefault(topic_id, []).append(asked)
    return tuple(FetchTopic(topic_id=topic_id, partitions=tuple(each)) for topic_id, each in topics.items())


def forgotten_topics(plan: PlannedFetch) -> tuple[ForgottenTopic, ...]:
    """What a Fetch has the session forget."""
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in plan.forgotten:
        topics.setdefault(topic_id, []).append(number)
    return tuple(ForgottenTopic(topic_id=topic_id, partitions=tuple(each)) for topic_id, each in topics.items())


def what_is_told(response: FetchResponse) -> Iterator[PartitionTold]:
    """What a response says of each partition; `records` are views onto it."""
    for topic in response.responses:
        topic_id = topic.topic_id
        for data in topic.partitions:
            yield PartitionTold(
                TopicIdPartition(topic_id, data.partition_index),
                ErrorCode.known(data.error_code),
                data.high_watermark,
                data.log_start_offset,
                _diverging(data),
                None if data.records is None else memoryview(data.records),
            )


def _diverging(data: PartitionData) -> OffsetAndEpoch | None:
    told = data.diverging_epoch
    return None if told.epoch < 0 and told.end_offset < 0 else OffsetAndEpoch(told.end_offset, told.epoch)


def offset_told(outcome: Message | SendFailure) -> int | None:
    """The one offset of a ListOffsets response; None if it has none."""
    if isinstance(outcome, SendFailure):
        return None
    assert isinstance(outcome, ListOffsetsResponse), "the api's own response"
    for topic in outcome.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE and partition.offset >= 0:
                return partition.offset
    return None
