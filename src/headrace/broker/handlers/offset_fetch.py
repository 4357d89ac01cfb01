"""The positions at which a group goes on reading (OffsetFetch)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.broker.broker import Broker
from headrace.coordinator.groups.requests import FetchStableOffsets
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.gather import gather
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_FIRST_WITH_TOP_LEVEL_ERROR = 2
_FIRST_WITH_GROUPS = 8
_FIRST_BY_ID = 10

TopicsAsked = list[tuple[str, Uuid, tuple[int, ...]]]


def handle(request: OffsetFetchRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer for each group; with `require_stable` when what was written before is committed (KIP-447)."""
    if context.api_version >= _FIRST_WITH_GROUPS:
        parts = [_fetch(group, request, context, broker) for group in request.groups]
        return gather(parts, lambda groups: OffsetFetchResponse(groups=tuple(groups)))
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else tuple(
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics
        ),
    )
    return gather([_fetch(group, request, context, broker)], lambda groups: _flat(groups[0], group, context))


def _fetch(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext, broker: Broker
) -> HandlerResult:
    """One group's part of the answer."""
    by_id = context.api_version >= _FIRST_BY_ID
    asked, unknown = _resolve(group, broker, by_id=by_id)

    def fit(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if response.error_code or not by_id:
            return response
        topics = response.topics + unknown if asked is not None else _with_ids(response.topics, broker)
        return replace(response, topics=topics)

    def refused(error: ErrorCode) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)

    if request.require_stable:
        stable = FetchStableOffsets(group_id=group.group_id, topics=None if asked is None else tuple(asked))
        return broker.groups.ask(group.group_id, stable, context, refused=refused, shape=fit)
    coordinator = broker.groups.coordinator_of(group.group_id)
    if isinstance(coordinator, ErrorCode):
        return Reply(refused(coordinator))
    return Reply(fit(coordinator.fetch_offsets(group.group_id, asked)))


def _resolve(
    group: OffsetFetchRequestGroup, broker: Broker, *, by_id: bool
) -> tuple[TopicsAsked | None, tuple[OffsetFetchResponseTopics, ...]]:
    """The topics by name, None for all of them, and the answer for ids that nobody knows."""
    if group.topics is None:
        return None, ()
    if not by_id:
        by_name = broker.image.topics.by_name
        ids = {each.name: (each.name in by_name and by_name[each.name].id) or ZERO_UUID for each in group.topics}
        return [(each.name, ids[each.name], tuple(each.partition_indexes)) for each in group.topics], ()
    asked: TopicsAsked = []
    unknown = []
    for topic in group.topics:
        found = broker.image.topics.by_id.get(topic.topic_id)
        if found is not None:
            asked.append((found.name, topic.topic_id, tuple(topic.partition_indexes)))
            continue
        partitions = tuple(_unknown_position(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes)
        unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    return asked, tuple(unknown)


def _with_ids(topics: tuple[OffsetFetchResponseTopics, ...], broker: Broker) -> tuple[OffsetFetchResponseTopics, ...]:
    """All topics that a group has positions in and that still have an id."""
    by_name = broker.image.topics.by_name
    return tuple(replace(each, topic_id=by_name[each.name].id) for each in topics if each.name in by_name)


def _flat(
    answer: OffsetFetchResponseGroup, group: OffsetFetchRequestGroup, context: RequestContext
) -> OffsetFetchResponse:
    """The answer as versions before 8 have it; version 1 has no error but the partitions' own."""
    topics = answer.topics
    if answer.error_code and context.api_version < _FIRST_WITH_TOP_LEVEL_ERROR:
        code = ErrorCode(answer.error_code)
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic.name, partitions=tuple(_unknown_position(index, code) for index in topic.partition_indexes)
            )
            for topic in group.topics or ()
        )
    return OffsetFetchResponse(
        error_code=answer.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(name=topic.name, partitions=tuple(_flat_position(p) for p in topic.partitions))
            for topic in topics
        ),
    )


def _flat_position(position: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    fields: dict[str, Any] = {
        "partition_index": position.partition_index,
        "committed_offset": position.committed_offset,
        "committed_leader_epoch": position.committed_leader_epoch,
        "metadata": position.metadata,
        "error_code": position.error_code,
    }
    return OffsetFetchResponsePartition(**fields)


def _unknown_position(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error
    )
