"""What clients write to a topic on this broker, and what they read of it."""

from __future__ import annotations


class TopicTraffic:
    """Counts since the broker hosts the topic: plain numbers that leaders and fetches raise, once a request and partition. `partitions` are hosted here.

    `produces` and `fetches` are of partitions, as Kafka counts them: a request that names two counts twice.
    """

    __slots__ = ("bytes_in", "bytes_out", "fetches", "messages_in", "partitions", "produces")

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.partitions = 0

    def add(self, other: TopicTraffic) -> None:
        """Those of another topic are counted here too."""
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.produces += other.produces
        self.fetches += other.fetches
