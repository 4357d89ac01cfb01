"""A topic as it is shown, with its partitions and settings."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any

from headrace.cli.output import show_json, show_table
from headrace.client import admin_configs, admin_topics
from headrace.client.admin_configs import ConfigSource, Resource, ResourceType
from headrace.client.admin_topics import PartitionDescription, Reassignment, TopicDescription
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.core.values import value_class


class PartitionFilter(Enum):
    """Which partitions are shown."""

    UNDER_REPLICATED = "under-replicated-partitions"
    UNAVAILABLE = "unavailable-partitions"
    UNDER_MIN_ISR = "under-min-isr-partitions"
    AT_MIN_ISR = "at-min-isr-partitions"


@value_class
class TopicSheet:
    """A topic with what is shown of it: settings that are no defaults, minimum of in-sync replicas, moves, nodes alive."""

    topic: TopicDescription
    configs: tuple[tuple[str, str | None], ...]
    min_isr: int
    moves: dict[int, Reassignment]
    alive: frozenset[int]

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, not counting those of a move."""
        first = self.topic.partitions[0] if self.topic.partitions else None
        if first is None:
            return 0
        move = self.moves.get(first.partition)
        return len(first.replicas) - (len(move.adding) if move else 0)

    def shows(self, part: PartitionDescription, only: PartitionFilter | None) -> bool:
        """True if the filter lets a partition through."""
        move = self.moves.get(part.partition)
        target = len(part.replicas) - (len(move.adding) if move else 0)
        match only:
            case PartitionFilter.UNDER_REPLICATED:
                return len(part.isr) < target
            case PartitionFilter.UNAVAILABLE:
                return part.leader not in self.alive
            case PartitionFilter.UNDER_MIN_ISR:
                return part.leader < 0 or len(part.isr) < self.min_isr
            case PartitionFilter.AT_MIN_ISR:
                return len(part.isr) == self.min_isr
            case None:
                return True


def collect(client: BlockingClient, names: list[str], *, partition_limit: int) -> list[TopicSheet]:
    """Everything about the named topics; one that is deleted meanwhile is left out. Raises PeerError."""
    if not names:
        return []
    described = client.run(admin_topics.describe_topics, names, partition_limit=partition_limit)
    topics = [topic for topic in described.values() if isinstance(topic, TopicDescription)]
    configs = client.run(admin_configs.describe_configs, [Resource(ResourceType.TOPIC, topic.name) for topic in topics])
    moves = _moves(client, topics)
    alive = frozenset(client.session.cluster.nodes)
    sheets = []
    for topic in topics:
        entries = configs.get(Resource(ResourceType.TOPIC, topic.name), ())
        found = () if isinstance(entries, PeerError) else entries
        values = {entry.name: entry.value for entry in found}
        minimum = values.get("min.insync.replicas") or "1"
        own = tuple((entry.name, entry.value) for entry in found if entry.source is not ConfigSource.DEFAULT_CONFIG)
        mine = {where.partition: move for where, move in moves.items() if where.topic == topic.name}
        sheets.append(TopicSheet(topic=topic, configs=own, min_isr=int(minimum), moves=mine, alive=alive))
    return sorted(sheets, key=lambda sheet: sheet.topic.name)


def without_elr(sheet: TopicSheet) -> TopicSheet:
    """The topic as Kafka's tool shows one that was asked for by its id: through an API that does not tell eligible leaders."""
    parts = tuple(replace(part, elr=None, last_known_elr=None) for part in sheet.topic.partitions)
    return replace(sheet, topic=replace(sheet.topic, partitions=parts))


def _moves(client: BlockingClient, topics: list[TopicDescription]) -> dict[TopicPartition, Reassignment]:
    """Reassignments under way; none where the cluster has no such API or the caller may not ask."""
    wanted = {topic.name: [part.partition for part in topic.partitions] for topic in topics}
    try:
        return client.run(admin_topics.list_reassignments, wanted)
    except PeerError as error:
        if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return {}
        raise


def show(
    sheets: list[TopicSheet], only: PartitionFilter | None, *, is_heads_only: bool, as_json: bool, as_table: bool
) -> None:
    """Print topics: as JSON, as tables, or in Kafka's lines."""
    if is_heads_only:
        sheets = [sheet for sheet in sheets if sheet.configs]
    if as_json:
        show_json([_plain(sheet, only, is_heads_only=is_heads_only) for sheet in sheets])
        return
    for sheet in sheets:
        parts = [part for part in sheet.topic.partitions if sheet.shows(part, only)]
        if as_table:
            _show_table(sheet, [] if is_heads_only else parts)
            continue
        if only is None:
            print(_head_line(sheet))
        if not is_heads_only:
            for part in parts:
                print(_partition_line(sheet, part))


def _join(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _leader(sheet: TopicSheet, part: PartitionDescription) -> str:
    return str(part.leader) if part.leader >= 0 else "none"


def _head_line(sheet: TopicSheet) -> str:
    topic = sheet.topic
    configs = ",".join(f"{name}={value}" for name, value in sheet.configs)
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {sheet.replication_factor}\tConfigs: {configs}"
    )


def _partition_line(sheet: TopicSheet, part: PartitionDescription) -> str:
    move = sheet.moves.get(part.partition)
    moving = f"\tAdding Replicas: {_join(move.adding)}\tRemoving Replicas: {_join(move.removing)}" if move else ""
    elr = "N/A" if part.elr is None else _join(part.elr)
    last = "N/A" if part.last_known_elr is None else _join(part.last_known_elr)
    return (
        f"\tTopic: {sheet.topic.name}\tPartition: {part.partition}\tLeader: {_leader(sheet, part)}\tReplicas: {_join(part.replicas)}"
        f"\tIsr: {_join(part.isr)}{moving}\tElr: {elr}\tLastKnownElr: {last}"
    )


def _show_table(sheet: TopicSheet, parts: list[PartitionDescription]) -> None:
    topic = sheet.topic
    configs = "  ".join(f"{name}={value}" for name, value in sheet.configs)
    count = len(topic.partitions)
    print(
        f"{topic.name}  ({topic.topic_id}, {count} partition{'' if count == 1 else 's'}, replication factor {sheet.replication_factor})"
    )
    if configs:
        print(f"  {configs}")
    if parts:
        columns = ("partition", "leader", "replicas", "in sync", "eligible leaders", "last known", "adding", "removing")
        rows = [
            (
                part.partition,
                _leader(sheet, part),
                _join(part.replicas),
                _join(part.isr),
                None if part.elr is None else _join(part.elr),
                None if part.last_known_elr is None else _join(part.last_known_elr),
                _join(sheet.moves[part.partition].adding) if part.partition in sheet.moves else "",
                _join(sheet.moves[part.partition].removing) if part.partition in sheet.moves else "",
            )
            for part in parts
        ]
        show_table("", columns, rows, right=(0, 1))


def _plain(sheet: TopicSheet, only: PartitionFilter | None, *, is_heads_only: bool) -> dict[str, Any]:
    topic = sheet.topic
    head: dict[str, Any] = {
        "topic": topic.name,
        "topicId": str(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": sheet.replication_factor,
        "internal": topic.is_internal,
        "configs": dict(sheet.configs),
    }
    if not is_heads_only:
        head["partitions"] = [
            {
                "partition": part.partition,
                "leader": part.leader if part.leader >= 0 else None,
                "leaderEpoch": part.leader_epoch,
                "replicas": part.replicas,
                "isr": part.isr,
                "elr": part.elr,
                "lastKnownElr": part.last_known_elr,
                "addingReplicas": sheet.moves[part.partition].adding if part.partition in sheet.moves else (),
                "removingReplicas": sheet.moves[part.partition].removing if part.partition in sheet.moves else (),
            }
            for part in topic.partitions
            if sheet.shows(part, only)
        ]
    return head
