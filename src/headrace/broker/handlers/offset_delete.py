"""The positions that a group forgets (OffsetDelete)."""

from __future__ import annotations

from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
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
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        found = broker.image.topics.by_name.get(topic.name)
        known = tuple(
            each for each in topic.partitions if found is not None and each.partition_index in found.partitions
        )
        if known:
            existing.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))
        if len(known) < len(topic.partitions):
            refused.setdefault(topic.name, []).extend(
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                for each in topic.partitions
                if found is None or each.partition_index not in found.partitions
            )

    def fit(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            return OffsetDeleteResponse(error_code=response.error_code)
        merged = {name: list(partitions) for name, partitions in refused.items()}
        for answered in response.topics:
            merged.setdefault(answered.name, []).extend(answered.partitions)
        return OffsetDeleteResponse(
            topics=tuple(
                OffsetDeleteResponseTopic(name=name, partitions=tuple(partitions))
                for name, partitions in merged.items()
            )
        )

    return broker.groups.ask(
        request.group_id,
        replace(request, topics=tuple(existing)),
        context,
        refused=lambda error: OffsetDeleteResponse(error_code=error),
        shape=fit,
    )
