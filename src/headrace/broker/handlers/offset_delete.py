"""Which positions should a group forget? (OffsetDelete)"""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.reply import HandlerResult, Reply
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer when the deletion is committed; topics and partitions that do not exist are refused here (KIP-496)."""
    if not request.group_id:
        return Reply(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    existing: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        found = broker.image.topics.by_name.get(topic.name)
        indexes = [each.partition_index for each in topic.partitions]
        unknown = [index for index in indexes if found is None or index not in found.partitions]
        known = tuple(each for each in topic.partitions if each.partition_index not in unknown)
        if unknown or not indexes:
            refused.append(_refusal(topic.name, unknown))
        if known:
            existing.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))

    def fit(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            return OffsetDeleteResponse(error_code=response.error_code)
        merged = {each.name: each for each in refused}
        for answered in response.topics:
            before = merged.get(answered.name)
            merged[answered.name] = (
                answered if before is None else replace(before, partitions=before.partitions + answered.partitions)
            )
        return OffsetDeleteResponse(topics=tuple(merged.values()))

    return broker.groups.ask(
        request.group_id,
        replace(request, topics=tuple(existing)),
        context,
        refused=lambda error: OffsetDeleteResponse(error_code=error),
        shape=fit,
    )


def _refusal(name: str, indexes: list[int]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for index in indexes
        ),
    )
