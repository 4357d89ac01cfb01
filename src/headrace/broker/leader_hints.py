"""The leader that a client should go to which came to the wrong broker (KIP-951)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.topic_listing import rack_of
from headrace.wire.leader_hints import Endpoint, LeaderHint


def leader_hint(broker: Broker, topic: str, partition: int) -> LeaderHint:
    """Who leads, as this broker knows; -1 when nobody does, or one whose process is gone."""
    known = broker.image.topics.partition(topic, partition)
    if known is None:
        return LeaderHint(-1, -1)
    return LeaderHint(-1 if known.leader in broker.departures.gone else known.leader, known.leader_epoch)


def node_hint(broker: Broker, node_id: int, listener: str) -> Endpoint | None:
    """Its address on the listener that was asked, when it is unfenced and has that listener."""
    registered = broker.image.cluster.brokers.get(node_id)
    if registered is None or registered.fenced:
        return None
    end_point = registered.end_point(listener)
    if end_point is None:
        return None
    return Endpoint(node_id, end_point.host, end_point.port, rack_of(broker.image, node_id))
