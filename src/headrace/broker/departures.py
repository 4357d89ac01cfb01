"""Brokers that left a moment ago: what clients are told of them, and for how long news of them is waited for (decision 43).

For a second they stay in the lists of brokers that clients are given.
librdkafka ends its connection to a broker that a Metadata response does not list. Where the same response gives a partition of that broker another
leader, the end of the connection may overtake the move to that leader: the partition is left without one, and looked at again when librdkafka's timer of
one second comes. A client that is told the new leader first, and of the broker's end later, goes on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import BrokerRegistration, EndPoint, MetadataImage

LISTED_MS = 1_000
"""Clients that were connected ask within a part of a second. Kafka lists a broker that died until its session ends, nine seconds."""

NEWS_WAIT_MS = 500
"""How long after a leader's process went clients wait to hear who leads instead, as the metadata say 20 ms later, or 200 where a controller went with it."""

BELIEVED_MS = 2_000
"""A leader that is registered all this time after its connection closed lives, and is out of reach of this broker alone, as with a name that is not found here."""


class NewsOfLeader(NamedTuple):
    """In the purgatory: what is waited for."""

    leader_id: int


class _Lost(NamedTuple):
    """A process that closed or refused a connection of this broker, and when."""

    broker_epoch: int
    since_ms: int


class _Fenced(NamedTuple):
    """A broker as it was registered before it was fenced, and when that was."""

    before: BrokerRegistration
    since_ms: int


class Departures:
    """Which processes ended a moment ago, as far as this broker saw (`lost`), and which brokers were fenced less than `LISTED_MS` ago (`note`)."""

    def __init__(
        self, image: Callable[[], MetadataImage], now_ms: Callable[[], int], news: Callable[[int], None]
    ) -> None:
        """`news` is told of which broker there may be some."""
        self._image = image
        self._now_ms = now_ms
        self._news = news
        self._fenced: dict[int, _Fenced] = {}
        self._lost: dict[int, _Lost] = {}

    # --- processes that went ---

    def lost(self, leader_id: int) -> None:
        """It closed or refused a fetch's connection: its process has ended, as a rule, and metadata will say so. Silence is no sign."""
        registered = self._image().cluster.brokers.get(leader_id)
        known = self._lost.get(leader_id)
        if registered is not None and (known is None or known.broker_epoch != registered.broker_epoch):
            self._lost[leader_id] = _Lost(registered.broker_epoch, self._now_ms())

    def answered(self, leader_id: int) -> None:
        """It lives after all, or is not fetched from any more."""
        if self._lost.pop(leader_id, None) is not None:
            self._news(leader_id)

    @property
    def gone(self) -> dict[int, int]:
        """Leaders of which the metadata may not say yet that their processes ended, and since when (ms)."""
        if not self._lost:
            return {}
        brokers, now_ms = self._image().cluster.brokers, self._now_ms()
        found = {}
        for leader_id, lost in self._lost.items():
            registered = brokers.get(leader_id)
            is_that = registered is not None and registered.broker_epoch == lost.broker_epoch
            if is_that and now_ms - lost.since_ms < BELIEVED_MS:
                found[leader_id] = lost.since_ms
        return found

    def awaited(self, leaders: Iterable[int] | None = None) -> dict[int, int]:
        """Those (of `leaders`) of which the metadata should tell in a moment, and until when that is waited for (ms)."""
        gone = self.gone
        if not gone:
            return {}
        brokers, now_ms = self._image().cluster.brokers, self._now_ms()
        found = {each: gone[each] + NEWS_WAIT_MS for each in (gone if leaders is None else leaders) if each in gone}
        return {each: until for each, until in found.items() if now_ms < until and not brokers[each].fenced}

    # --- brokers that were fenced ---

    def note(self, delta: MetadataDelta) -> None:
        """What became of brokers.

        Those are not listed that stopped cleanly: their leaderships had moved before. Nor those that were unregistered: an operator wants them to be gone.
        """
        now_ms = self._now_ms()
        self._fenced = {each: one for each, one in self._fenced.items() if now_ms - one.since_ms < LISTED_MS}
        for broker_id in delta.changed_brokers:
            before = delta.previous.cluster.brokers.get(broker_id)
            after = delta.image.cluster.brokers.get(broker_id)
            was_serving = before is not None and not before.fenced and not before.in_controlled_shutdown
            if was_serving and after is not None and after.fenced:
                assert before is not None, "it was serving"
                self._fenced[broker_id] = _Fenced(before, now_ms)
            self._news(broker_id)

    def end_points(self, image: MetadataImage, listener: str) -> dict[int, EndPoint]:
        """Where those that were fenced had been reached by clients of this listener, by id; `image` is what the response shows."""
        if not self._fenced:
            return {}
        found, now_ms = {}, self._now_ms()
        for broker_id, (before, since_ms) in self._fenced.items():
            broker = image.cluster.brokers.get(broker_id)
            end_point = before.end_point(listener)
            if end_point is not None and broker is not None and broker.fenced and now_ms - since_ms < LISTED_MS:
                found[broker_id] = end_point
        return found
