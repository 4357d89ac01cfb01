"""The positions at which a group goes on reading (OffsetFetch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.broker.broker import Broker
from headrace.coordinator.groups.positions import StoredPositions, TopicsAsked, no_position
from headrace.coordinator.groups.requests import FetchStableOffsets
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.gather import gather
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import HandlerResult, InSteps, Reply
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
_REST_AFTER = 50


def handle(request: OffsetFetchRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer for each group; with `require_stable` when what was written before is committed (KIP-447)."""
    groups = request.groups if context.api_version >= _FIRST_WITH_GROUPS else (_only_group(request),)
    parts = [_stored(group.group_id, request, context, broker) for group in groups]
    return gather(parts, lambda stored: InSteps(_answer(groups, stored, context, broker), size=1, mostly_short=True))


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The group of a request as versions before 8 have it."""
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        )
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _stored(group_id: str, request: OffsetFetchRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """The positions of a group, or an error."""
    if request.require_stable:
        stable = FetchStableOffsets(group_id=group_id)
        return broker.groups.ask(group_id, stable, context, refused=lambda error: error)
    coordinator = broker.groups.coordinator_of(group_id)
    return Reply(coordinator if isinstance(coordinator, ErrorCode) else coordinator.positions(group_id))


def _answer(
    groups: Sequence[OffsetFetchRequestGroup],
    stored: list[StoredPositions | ErrorCode],
    context: RequestContext,
    broker: Broker,
) -> Steps[HandlerResult]:
    answers = []
    for group, positions in zip(groups, stored, strict=True):
        answers.append((yield from _group(group, positions, context, broker)))
    if context.api_version >= _FIRST_WITH_GROUPS:
        return Reply(OffsetFetchResponse(groups=tuple(answers)))
    return Reply((yield from _flat(answers[0], groups[0], context)))


def _group(
    group: OffsetFetchRequestGroup, stored: StoredPositions | ErrorCode, context: RequestContext, broker: Broker
) -> Steps[OffsetFetchResponseGroup]:
    """One group's part of the answer."""
    if isinstance(stored, ErrorCode):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=stored)
    by_id = context.api_version >= _FIRST_BY_ID
    asked, unknown = _resolve(group, broker, by_id=by_id)
    topics = yield from stored.topics(asked)
    if by_id:
        topics = topics + unknown if asked is not None else _with_ids(topics, broker)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


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
    asked: list[tuple[str, Uuid, tuple[int, ...]]] = []
    unknown = []
    for topic in group.topics:
        found = broker.image.topics.by_id.get(topic.topic_id)
        if found is not None:
            asked.append((found.name, topic.topic_id, tuple(topic.partition_indexes)))
            continue
        partitions = tuple(no_position(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes)
        unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    return asked, tuple(unknown)


def _with_ids(topics: tuple[OffsetFetchResponseTopics, ...], broker: Broker) -> tuple[OffsetFetchResponseTopics, ...]:
    """All topics that a group has positions in and that still have an id."""
    by_name = broker.image.topics.by_name
    return tuple(replace(each, topic_id=by_name[each.name].id) for each in topics if each.name in by_name)


def _flat(
    answer: OffsetFetchResponseGroup, group: OffsetFetchRequestGroup, context: RequestContext
) -> Steps[OffsetFetchResponse]:
    """The answer as versions before 8 have it; version 1 has no error but the partitions' own."""
    topics = answer.topics
    if answer.error_code and context.api_version < _FIRST_WITH_TOP_LEVEL_ERROR:
        code = ErrorCode(answer.error_code)
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic.name, partitions=tuple(no_position(index, code) for index in topic.partition_indexes)
            )
            for topic in group.topics or ()
        )
    flat = []
    for topic in topics:
        partitions: list[OffsetFetchResponsePartition] = []
        for at in range(0, len(topic.partitions), _REST_AFTER):
            partitions.extend(map(_flat_position, topic.partitions[at : at + _REST_AFTER]))
            yield None
        flat.append(OffsetFetchResponseTopic(name=topic.name, partitions=tuple(partitions)))
    return OffsetFetchResponse(error_code=answer.error_code, topics=tuple(flat))


def _flat_position(position: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    fields: dict[str, Any] = {
        "partition_index": position.partition_index,
        "committed_offset": position.committed_offset,
        "committed_leader_epoch": position.committed_leader_epoch,
        "metadata": position.metadata,
        "error_code": position.error_code,
    }
    return OffsetFetchResponsePartition(**fields)
