"""The throttles of a reassignment: which replicas of which topics, how fast on which brokers, set and cleared (KIP-73)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.client import admin_cluster, admin_configs
from headrace.client.admin_configs import Resource, ResourceType, alter
from headrace.client.admin_placement import Replica
from headrace.client.admin_topics import Reassignment
from headrace.client.blocking import BlockingClient
from headrace.core.ids import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Move(NamedTuple):
    """Who has a partition now, and who gets it."""

    sources: frozenset[int]
    destinations: frozenset[int]


def planned_moves(
    ongoing: Mapping[TopicPartition, Reassignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """The moves that go on, and those that are proposed; a partition on the move keeps the sources that it began with."""
    moves = {
        where: Move(frozenset(move.replicas) - frozenset(move.adding), frozenset(move.adding))
        for where, move in ongoing.items()
    }
    for where, replicas in proposed.items():
        sources = moves[where].sources if where in moves else frozenset(current[where])
        moves[where] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """The settings of each topic: replicas that leaders send slowly, and replicas that followers fetch slowly."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for where, move in moves.items():
        leaders.setdefault(where.topic, []).extend(f"{where.partition}:{each}" for each in move.sources)
        followers.setdefault(where.topic, []).extend(f"{where.partition}:{each}" for each in move.destinations)
    return {name: (",".join(sorted(leaders[name])), ",".join(sorted(followers[name]))) for name in sorted(leaders)}


def set_replication_throttle(client: BlockingClient, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    """Throttle the replicas of `moves` to `rate` bytes a second on every broker that takes part. Raises PeerError."""
    settings = {
        Resource(ResourceType.TOPIC, name): alter(dict(zip(REPLICAS, texts, strict=True)))
        for name, texts in throttled_replicas(moves).items()
    }
    _change(client, settings)
    brokers = sorted({each for move in moves.values() for each in move.sources | move.destinations})
    _change(client, {_broker(each): alter(dict.fromkeys(RATES, str(rate))) for each in brokers})
    print(f"The inter-broker throttle limit was set to {rate} B/s")


def set_directory_throttle(client: BlockingClient, replicas: Iterable[Replica], rate: int) -> None:
    """Throttle moves between directories to `rate` bytes a second on the brokers of `replicas`. Raises PeerError."""
    brokers = sorted({each.broker_id for each in replicas})
    _change(client, {_broker(each): alter({DIRECTORY_RATE: str(rate)}) for each in brokers})
    print(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def clear_throttles(client: BlockingClient, targets: Iterable[tuple[TopicPartition, Sequence[int]]]) -> None:
    """Take away every throttle of a reassignment, from all brokers: nobody knows which ones took part. Raises PeerError."""
    named = list(targets)
    alive = {node.node_id for node in client.run(admin_cluster.describe_cluster).end_points}
    brokers = alive | {each for _, replicas in named for each in replicas}
    listed = ",".join(map(str, sorted(brokers)))
    print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {listed}")
    for each in sorted(brokers - alive):
        print(f"Broker {each} does not run: its throttle stays until --verify is run again", file=sys.stderr)
    _change(client, {_broker(each): alter({}, (*RATES, DIRECTORY_RATE)) for each in sorted(alive)})
    topics = sorted({where.topic for where, _ in named})
    print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    _change(client, {Resource(ResourceType.TOPIC, name): alter({}, REPLICAS) for name in topics})


def _broker(broker_id: int) -> Resource:
    return Resource(ResourceType.BROKER, str(broker_id))


def _change(client: BlockingClient, changes: Mapping[Resource, Sequence[admin_configs.ConfigChange]]) -> None:
    if not changes:
        return
    for error in client.run(admin_configs.alter_configs, changes).values():
        if error is not None:
            raise error
