"""Conversations about where replicas are and who leads: reassignments (KIP-455), elections (KIP-460), log directories (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from headrace.client.admin_cluster import LogDirInfo, describe_log_dirs
from headrace.client.retry import error_of, of_each
from headrace.client.routing import ask_controller, ask_node, refresh
from headrace.client.session import Session
from headrace.client.talk import Answered, Ask, AskAll, Conversation, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


class ElectionType(IntEnum):
    """Which kind of leader is looked for, as numbered on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class Replica(NamedTuple):
    """One broker's copy of a partition."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class ReplicaDirs(NamedTuple):
    """Where a replica is, and where it moves to; None: in no directory that is online, and not on the move."""

    current: str | None
    future: str | None


def alter_reassignments(
    session: Session,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    may_change_factor: bool = True,
    timeout_ms: int = 60_000,
) -> Conversation[dict[TopicPartition, PeerError | None]]:
    """Begin reassignments, or cancel them (None); the error of each partition. Raises PeerError."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for where, replicas in sorted(targets.items()):
        asked = ReassignablePartition(
            partition_index=where.partition, replicas=None if replicas is None else tuple(replicas)
        )
        topics.setdefault(where.topic, []).append(asked)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=may_change_factor,
        topics=tuple(ReassignableTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
    )
    call = bounded(request, at_least=0 if may_change_factor else 1)
    response = yield from ask_controller(session, call, verdict=_whole_error)
    results = {
        TopicPartition(topic.name, part.partition_index): error_of(part.error_code, part.error_message)
        for topic in response.responses
        for part in topic.partitions
    }
    return of_each(targets, results)


def _whole_error(answer: Any) -> PeerError | None:
    return error_of(answer.error_code, getattr(answer, "error_message", None))


def elect_leaders(
    session: Session, kind: ElectionType, wanted: Iterable[TopicPartition] | None, *, timeout_ms: int = 30_000
) -> Conversation[dict[TopicPartition, PeerError | None]]:
    """Elect leaders of `wanted` (None: wherever it is needed); the error of each partition. Raises PeerError."""
    topics: dict[str, list[int]] = {}
    for where in sorted(wanted or ()):
        topics.setdefault(where.topic, []).append(where.partition)
    request = ElectLeadersRequest(
        election_type=int(kind),
        topic_partitions=None
        if wanted is None
        else tuple(TopicPartitions(topic=name, partitions=tuple(parts)) for name, parts in topics.items()),
        timeout_ms=timeout_ms,
    )
    call = bounded(request, at_least=1 if kind is ElectionType.UNCLEAN else 0)
    response = yield from ask_controller(session, call, verdict=_whole_error)
    return {
        TopicPartition(topic.topic, part.partition_id): error_of(part.error_code, part.error_message)
        for topic in response.replica_election_results
        for part in topic.partition_result
    }


def replica_dirs(session: Session, replicas: Iterable[Replica]) -> Conversation[dict[Replica, ReplicaDirs]]:
    """Where each replica is. Raises PeerError: a broker does not tell."""
    wanted = sorted(replicas)
    brokers = sorted({each.broker_id for each in wanted})
    topics = sorted({each.topic for each in wanted})
    told = (yield from describe_log_dirs(session, brokers, topics)) if wanted else {}
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    for broker_id, infos in told.items():
        if isinstance(infos, PeerError):
            raise infos
        for info in infos:
            for each in info.replicas:
                place = future if each.is_future else current
                place[Replica(each.topic, each.partition, broker_id)] = info.path
    return {each: ReplicaDirs(current.get(each), future.get(each)) for each in wanted}


def known_dirs(session: Session, replicas: Iterable[Replica]) -> Conversation[dict[Replica, str]]:
    """Where the replicas are of which a live broker tells it."""
    wanted = set(replicas)
    yield from refresh(session)
    brokers = sorted({each.broker_id for each in wanted} & set(session.cluster.nodes))
    told = (yield from describe_log_dirs(session, brokers, sorted({each.topic for each in wanted}))) if brokers else {}
    found: dict[Replica, str] = {}
    for broker_id, infos in told.items():
        for info in () if isinstance(infos, PeerError) else infos:
            found |= {
                Replica(each.topic, each.partition, broker_id): info.path
                for each in info.replicas
                if not each.is_future
            }
    return found


def alter_replica_dirs(session: Session, moves: Mapping[Replica, str]) -> Conversation[dict[Replica, PeerError | None]]:
    """Move replicas to other directories of their brokers; the error of each. Raises PeerError: a broker cannot be asked."""
    found: dict[Replica, PeerError | None] = {}
    for broker_id in sorted({each.broker_id for each in moves}):
        dirs: dict[str, dict[str, list[int]]] = {}
        for replica, path in sorted(moves.items()):
            if replica.broker_id == broker_id:
                dirs.setdefault(path, {}).setdefault(replica.topic, []).append(replica.partition)
        request = AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    path=path,
                    topics=tuple(
                        AlterReplicaLogDirTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()
                    ),
                )
                for path, topics in dirs.items()
            )
        )
        response = yield from ask_node(session, broker_id, request)
        for topic in response.results:
            for part in topic.partitions:
                found[Replica(topic.topic_name, part.partition_index, broker_id)] = error_of(part.error_code)
    return found


def hosted(session: Session, *, timeout_ms: int) -> Conversation[dict[int, frozenset[TopicPartition] | None]]:
    """The partitions in the directories of each live broker, all brokers asked at the same time; None: it did not answer in time."""
    yield from refresh(session)
    nodes = sorted(session.cluster.nodes.values(), key=lambda node: node.node_id)
    request = DescribeLogDirsRequest(topics=None)
    asks = tuple(Ask(address=node.address, request=request, timeout_ms=timeout_ms) for node in nodes)
    outcomes = (yield AskAll(asks=asks)) if asks else []
    found: dict[int, frozenset[TopicPartition] | None] = {}
    for node, outcome in zip(nodes, outcomes, strict=True):
        if not isinstance(outcome, Answered) or outcome.response.error_code != ErrorCode.NONE:
            found[node.node_id] = None
            continue
        found[node.node_id] = frozenset(
            TopicPartition(topic.name, part.partition_index)
            for each in outcome.response.results
            for topic in each.topics
            for part in topic.partitions
            if not part.is_future_key
        )
    return found


def replica_sizes(
    session: Session, broker_ids: Sequence[int]
) -> Conversation[tuple[dict[Replica, int], dict[int, PeerError]]]:
    """The bytes of every replica on these brokers, and the brokers that did not tell."""
    told = yield from describe_log_dirs(session, broker_ids)
    sizes: dict[Replica, int] = {}
    silent: dict[int, PeerError] = {}
    for broker_id, infos in told.items():
        if isinstance(infos, PeerError):
            silent[broker_id] = infos
            continue
        for info in infos:
            _add_sizes(sizes, broker_id, info)
    return sizes, silent


def _add_sizes(sizes: dict[Replica, int], broker_id: int, info: LogDirInfo) -> None:
    for each in info.replicas:
        if not each.is_future:
            sizes[Replica(each.topic, each.partition, broker_id)] = each.size
