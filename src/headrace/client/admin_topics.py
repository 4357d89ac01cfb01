"""Conversations about topics: created, deleted, grown and described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.client.retry import Attempts, error_of, of_each, only
from headrace.client.routing import ask_any, ask_controller, refresh
from headrace.client.session import Session
from headrace.client.talk import Call, Conversation, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition, Uuid
from headrace.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    TopicRequest,
)
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

CLUSTER_DEFAULT = -1
_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created; -1 partitions or replicas means the cluster's default. `assignment` gives the replicas of each partition."""

    name: str
    partitions: int = CLUSTER_DEFAULT
    replication_factor: int = CLUSTER_DEFAULT
    assignment: tuple[tuple[int, ...], ...] | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition as its cluster describes it; `elr` and `last_known_elr` are None where the cluster does not tell (KIP-966)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as its cluster describes it, partitions by rising number."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is on the move."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def create_topics(
    session: Session, topics: Sequence[NewTopic], *, is_validate_only: bool = False, timeout_ms: int = _TIMEOUT_MS
) -> Conversation[dict[str, Uuid | PeerError]]:
    """Create topics; the id of each, or why it was not created."""
    request = CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=CLUSTER_DEFAULT if topic.assignment is not None else topic.partitions,
                replication_factor=CLUSTER_DEFAULT if topic.assignment is not None else topic.replication_factor,
                assignments=tuple(
                    CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(replicas))
                    for index, replicas in enumerate(topic.assignment or ())
                ),
                configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()),
            )
            for topic in topics
        ),
        timeout_ms=timeout_ms,
        validate_only=is_validate_only,
    )
    response = yield from ask_controller(session, bounded(request, at_least=4), verdict=_not_controller)
    results = {row.name: error_of(row.error_code, row.error_message) or row.topic_id for row in response.topics}
    return of_each((topic.name for topic in topics), results)


def _not_controller(response: Any) -> PeerError | None:
    """NOT_CONTROLLER stands in every row; other errors are each topic's own."""
    names = ("topics", "results", "responses")
    rows: Any = next(getattr(response, name) for name in names if hasattr(response, name))
    codes = {row.error_code for row in rows}
    return PeerError(ErrorCode.NOT_CONTROLLER) if codes == {ErrorCode.NOT_CONTROLLER.value} else None


def delete_topics(
    session: Session, names: Sequence[str], *, timeout_ms: int = _TIMEOUT_MS
) -> Conversation[dict[str, PeerError | None]]:
    """Delete topics; None for each that is gone, or why it is not."""

    def build(version: int) -> DeleteTopicsRequest:
        if version >= 6:
            return DeleteTopicsRequest(
                topics=tuple(DeleteTopicState(name=name) for name in names), timeout_ms=timeout_ms
            )
        return DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=timeout_ms)

    response = yield from ask_controller(session, Call(api=DeleteTopicsRequest, build=build), verdict=_not_controller)
    results = {row.name or "": error_of(row.error_code, row.error_message) for row in response.responses}
    for name, error in results.items():
        if error is None:
            session.cluster.forget_topic(name)
    return of_each(names, results)


def create_partitions(
    session: Session,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    timeout_ms: int = _TIMEOUT_MS,
) -> Conversation[dict[str, PeerError | None]]:
    """Grow topics to `counts` partitions in all; `assignments` gives the replicas of the new ones."""
    given = assignments or {}
    request = CreatePartitionsRequest(
        topics=tuple(
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=tuple(CreatePartitionsAssignment(broker_ids=tuple(each)) for each in given[name])
                if name in given
                else None,
            )
            for name, count in counts.items()
        ),
        timeout_ms=timeout_ms,
    )
    response = yield from ask_controller(session, request, verdict=_not_controller)
    return of_each(counts, {row.name: error_of(row.error_code, row.error_message) for row in response.results})


def describe_topics(
    session: Session, names: Iterable[str], *, partition_limit: int = 2000
) -> Conversation[dict[str, TopicDescription | PeerError]]:
    """Describe topics by name, with eligible leaders where the cluster tells them."""
    wanted = sorted(set(names))
    try:
        return of_each(wanted, (yield from _describe_in_pages(session, wanted, partition_limit)))
    except PeerError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
    found = yield from refresh(session, wanted)
    views = {name: view if isinstance(view, PeerError) else _from_view(view) for name, view in found.items()}
    return of_each(wanted, views)


def _from_view(view: Any) -> TopicDescription:
    parts = tuple(
        PartitionDescription(
            partition=part.partition,
            leader=part.leader,
            leader_epoch=part.leader_epoch,
            replicas=part.replicas,
            isr=part.isr,
        )
        for part in view.partitions
    )
    return TopicDescription(name=view.name, topic_id=view.topic_id, is_internal=view.is_internal, partitions=parts)


def _describe_in_pages(
    session: Session, names: list[str], limit: int
) -> Conversation[dict[str, TopicDescription | PeerError]]:
    attempts = Attempts(session)
    found: dict[str, PeerError | DescribeTopicPartitionsResponseTopic] = {}
    parts: dict[str, dict[int, PartitionDescription]] = {}
    cursor: RequestCursor | None = None
    while names:
        request = DescribeTopicPartitionsRequest(
            topics=tuple(TopicRequest(name=name) for name in names), response_partition_limit=limit, cursor=cursor
        )
        outcome = yield from ask_any(session, request, attempts=attempts)
        for topic in outcome.response.topics:
            name = topic.name or ""
            found[name] = error_of(topic.error_code) or topic
            parts.setdefault(name, {}).update((each.partition_index, _described(each)) for each in topic.partitions)
        following = outcome.response.next_cursor
        if following is None or (cursor is not None and _place(following) <= _place(cursor)):
            break
        if not attempts.left_ms:
            raise PeerError(ErrorCode.REQUEST_TIMED_OUT, "the node always names one more page of partitions")
        cursor = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)
        names = [name for name in names if name >= following.topic_name]
    return {
        name: one if isinstance(one, PeerError) else _of_pages(one, parts[name].values()) for name, one in found.items()
    }


def _of_pages(topic: DescribeTopicPartitionsResponseTopic, parts: Iterable[PartitionDescription]) -> TopicDescription:
    return TopicDescription(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(sorted(parts, key=lambda part: part.partition)),
    )


def _place(cursor: Any) -> tuple[str, int]:
    return (cursor.topic_name, cursor.partition_index)


def _described(part: Any) -> PartitionDescription:
    return PartitionDescription(
        partition=part.partition_index,
        leader=part.leader_id,
        leader_epoch=part.leader_epoch,
        replicas=tuple(part.replica_nodes),
        isr=tuple(part.isr_nodes),
        elr=tuple(part.eligible_leader_replicas or ()),
        last_known_elr=tuple(part.last_known_elr or ()),
    )


def describe_topic_id(session: Session, topic_id: Uuid) -> Conversation[TopicDescription | PeerError]:
    """Describe the topic with this id. Raises PeerError when the cluster cannot look up ids."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=topic_id, name=None),), allow_auto_topic_creation=False
    )
    outcome = yield from ask_any(session, bounded(request, at_least=12))
    topic = only(outcome.response.topics)
    error = error_of(topic.error_code)
    if error is not None:
        return error
    found = yield from describe_topics(session, [topic.name or ""])
    return next(iter(found.values()))


def list_topics(session: Session) -> Conversation[dict[str, bool]]:
    """Every topic the caller may see, by name: True for an internal one."""
    found = yield from refresh(session, None)
    return {name: view.is_internal for name, view in sorted(found.items()) if not isinstance(view, PeerError)}


def list_reassignments(
    session: Session, parts: Mapping[str, Sequence[int]] | None = None
) -> Conversation[dict[TopicPartition, Reassignment]]:
    """Partitions on the move, among `parts` or all. Raises PeerError."""
    topics = None
    if parts is not None:
        topics = tuple(
            ListPartitionReassignmentsTopics(name=name, partition_indexes=tuple(numbers))
            for name, numbers in parts.items()
        )
    response = yield from ask_controller(
        session,
        ListPartitionReassignmentsRequest(topics=topics),
        verdict=lambda answer: error_of(answer.error_code, answer.error_message),
    )
    return {
        TopicPartition(topic.name, part.partition_index): Reassignment(
            replicas=tuple(part.replicas), adding=tuple(part.adding_replicas), removing=tuple(part.removing_replicas)
        )
        for topic in response.topics
        for part in topic.partitions
    }
