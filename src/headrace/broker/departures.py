"""Brokers that left a moment ago: what clients are told of them, and for how long news of them is waited for (decision 43).

For a second they stay in the lists of brokers that clients are given.
librdkafka ends its connection to a broker that a Metadata response does not list. Where the same response gives a partition of that broker another
leader, the end of the connection may overtake the move to that leader: the partition is left without one, and looked at again when librdkafka's timer of
one second comes. A client that is told the new leader first, and of the broker's end later, goes on at once.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import EndPoint, MetadataImage

LISTED_MS = 1_000
"""Clients that were connected ask within a part of a second. Kafka lists a broker that died until its session ends, nine seconds."""

NEWS_WAIT_MS = 500
"""How long after a leader's process went clients wait to hear who leads instead, as the metadata say 20 ms later, or 200 where a controller went with it."""


class NewsOfLeader(NamedTuple):
    """In the purgatory: what is waited for."""

    leader_id: int


class Departures:
    """Which brokers were fenced less than `LISTED_MS` ago.

    Not those that stopped cleanly: their leaderships had moved before. Nor those that were unregistered: an operator wants them to be gone.
    """

    def __init__(self) -> None:
        self._since_ms: dict[int, int] = {}

    def note(self, delta: MetadataDelta, now_ms: int) -> list[int]:
        """The brokers that this delta fenced."""
        fenced = []
        for broker_id in delta.changed_brokers:
            before = delta.previous.cluster.brokers.get(broker_id)
            after = delta.image.cluster.brokers.get(broker_id)
            if before is not None and after is not None and after.fenced and not before.fenced:
                fenced.append(broker_id)
                if not before.in_controlled_shutdown:
                    self._since_ms[broker_id] = now_ms
        self._since_ms = {each: at_ms for each, at_ms in self._since_ms.items() if now_ms - at_ms < LISTED_MS}
        return fenced

    def end_points(self, image: MetadataImage, listener: str, now_ms: int) -> dict[int, EndPoint]:
        """Where they were reached by clients of this listener, by id; `image` is what the response shows."""
        found = {}
        for broker_id, at_ms in self._since_ms.items():
            broker = image.cluster.brokers.get(broker_id)
            end_point = None if broker is None or not broker.fenced else broker.end_point(listener)
            if end_point is not None and now_ms - at_ms < LISTED_MS:
                found[broker_id] = end_point
        return found
