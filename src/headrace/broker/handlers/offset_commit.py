"""The positions that a group stores (OffsetCommit)."""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.coordinator.groups.committing import commit_refused
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import MetadataImage, TopicImage
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FIRST_BY_ID = 10


def handle(request: OffsetCommitRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer when the positions are committed; topics and partitions that do not exist are refused here."""
    by_id = context.api_version >= _FIRST_BY_ID
    refused: list[OffsetCommitResponseTopic] = []
    existing: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        _sort(topic, broker.image, by_id=by_id, refused=refused, existing=existing)
    if not existing:
        return Reply(OffsetCommitResponse(topics=tuple(refused)))
    known = replace(request, topics=tuple(existing))

    def fit(response: OffsetCommitResponse) -> OffsetCommitResponse:
        return _merge(refused, response, by_id=by_id) if refused else response

    return broker.groups.ask(
        request.group_id, known, context, refused=lambda error: fit(commit_refused(known, error)), shape=fit
    )


def _sort(
    topic: OffsetCommitRequestTopic,
    image: MetadataImage,
    *,
    by_id: bool,
    refused: list[OffsetCommitResponseTopic],
    existing: list[OffsetCommitRequestTopic],
) -> None:
    """Put what exists of a topic into `existing`, with its name and id, and the rest into `refused`."""
    found = image.topics.by_id.get(topic.topic_id) if by_id else image.topics.by_name.get(topic.name)
    if found is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused.append(_refusal(topic, topic.partitions, error))
        return
    named = replace(topic, name=found.name, topic_id=found.id)
    unknown = tuple(each for each in topic.partitions if not _has(found, each))
    if unknown:
        refused.append(_refusal(named, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    known = tuple(each for each in topic.partitions if _has(found, each))
    if known:
        existing.append(replace(named, partitions=known))


def _has(topic: TopicImage, partition: OffsetCommitRequestPartition) -> bool:
    return partition.partition_index in topic.partitions


def _refusal(
    topic: OffsetCommitRequestTopic, partitions: tuple[OffsetCommitRequestPartition, ...], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error) for each in partitions
        ),
    )


def _merge(
    refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse, *, by_id: bool
) -> OffsetCommitResponse:
    """One entry a topic: what was refused here, then what the coordinator said."""
    merged: dict[object, OffsetCommitResponseTopic] = {}
    partitions: dict[object, list[OffsetCommitResponsePartition]] = {}
    for topic in (*refused, *response.topics):
        key: object = topic.topic_id if by_id else topic.name
        merged.setdefault(key, topic)
        partitions.setdefault(key, []).extend(topic.partitions)
    topics = tuple(replace(topic, partitions=tuple(partitions[key])) for key, topic in merged.items())
    return replace(response, topics=topics)
