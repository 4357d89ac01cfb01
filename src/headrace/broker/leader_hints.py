"""Where should a client that came to the wrong broker go? (KIP-951)"""

from __future__ import annotations

from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.topic_listing import rack_of


class LeaderHint(NamedTuple):
    """The current leader and its epoch; -1 when there is none."""

    leader_id: int
    leader_epoch: int


class NodeHint(NamedTuple):
    """Where a leader is reached on the listener that was asked."""

    node_id: int
    host: str
    port: int
    rack: str | None


def leader_hint(broker: Broker, topic: str, partition: int) -> LeaderHint:
    """Who leads, as this broker knows."""
    known = broker.image.topics.partition(topic, partition)
    return LeaderHint(-1, -1) if known is None else LeaderHint(known.leader, known.leader_epoch)


def node_hint(broker: Broker, node_id: int, listener: str) -> NodeHint | None:
    """Its address, when it is unfenced and has that listener."""
    registered = broker.image.cluster.brokers.get(node_id)
    if registered is None or registered.fenced:
        return None
    end_point = registered.end_point(listener)
    if end_point is None:
        return None
    return NodeHint(node_id, end_point.host, end_point.port, rack_of(broker.image, node_id))
