"""The watch for brokers that are gone for sure, before their sessions end.

A broker that was killed on a living host answers: its connections are closed, and new ones are refused. The active controller watches the
connection on which each broker heartbeats. When that goes, it probes the broker's listeners (a TCP connect that sends no byte); when every
eligible one refuses, twice, the broker of that epoch is gone. Eligible is a listener that was reached before in the same broker epoch: with
none the session timeout decides, because refusals of localhost, containers and NAT may mean nothing.

    unknown -> learning (unfenced, heard)   each listener is probed once; those that answer are eligible
    watched -> probing (connection closed)  first round, then a second one
    probing -> gone (all refused twice)     or watched again: silence, or a heartbeat came on another connection
    probing -> pausing -> probing           a listener took the connect: a process that dies may close it last; a few times
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from headrace.core.peers import SendFailure
from headrace.metadata.image import BrokerRegistration, MetadataImage

PROBE_TIMEOUT_MS = 1_000
ROUNDS = 2
_LEARN_AGAIN_MS = 10_000
PAUSES_MS = (20, 50, 100, 200, 400, 800)
"""How long after each connect that was taken the probing begins anew; then the session timeout decides."""

ConnectionName = tuple[str, int]
"""Listener and number of a connection to this node."""
Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Connect to this address, send nothing, close; then call `NodeMachine.probed`: None for taken, else how it failed."""

    correlation: int
    host: str
    port: int
    timeout_ms: int = PROBE_TIMEOUT_MS


@dataclass(slots=True)
class _Watched:
    """One broker epoch. `waiting` counts probes of the round that is under way; `round` 0 is none. `again_at_ms` ends a pause."""

    broker_id: int
    epoch: int
    connection: ConnectionName | None = None
    eligible: set[Address] = field(default_factory=set)
    learn_at_ms: int = 0
    round: int = 0
    waiting: int = 0
    pauses: int = 0
    again_at_ms: int | None = None


class BrokerWatch:
    """Watches the brokers while this node's controller is active. Driven by `node.machine`; pure."""

    def __init__(
        self,
        *,
        image: Callable[[], MetadataImage],
        is_active: Callable[[], bool],
        probe: Callable[[Probe], None],
        gone: Callable[[int, int], None],
    ) -> None:
        """`gone` is told broker id and epoch."""
        self._image = image
        self._is_active = is_active
        self._probe = probe
        self._gone = gone
        self._numbers = count(1)
        self._watched: dict[int, _Watched] = {}
        self._asked: dict[int, tuple[_Watched, int, Address]] = {}

    def heard(self, broker_id: int, broker_epoch: int, connection: ConnectionName, now_ms: int) -> None:
        """A heartbeat of a broker came on a connection of this node."""
        registered = self._registered(broker_id, broker_epoch)
        if registered is None:
            return
        watched = self._watched.get(broker_id)
        if watched is None or watched.epoch != broker_epoch:
            watched = self._watched[broker_id] = _Watched(broker_id, broker_epoch)
        if watched.connection != connection:
            watched.connection = connection
            watched.round = watched.pauses = 0
            watched.again_at_ms = None
        self._learn(watched, registered, now_ms)

    def changed(self, broker_ids: Iterable[int], now_ms: int) -> None:
        """These brokers' registrations changed: one that was unfenced has its listeners open."""
        for broker_id in broker_ids:
            watched = self._watched.get(broker_id)
            registered = None if watched is None else self._registered(broker_id, watched.epoch)
            if watched is not None and registered is not None:
                self._learn(watched, registered, now_ms)

    def _learn(self, watched: _Watched, registered: BrokerRegistration, now_ms: int) -> None:
        if watched.eligible or registered.fenced or now_ms < watched.learn_at_ms:
            return
        watched.learn_at_ms = now_ms + _LEARN_AGAIN_MS
        for end_point in registered.end_points:
            self._ask(watched, 0, (end_point.host, end_point.port))

    def closed(self, connection: ConnectionName) -> None:
        """A connection to this node is gone."""
        for watched in [each for each in self._watched.values() if each.connection == connection]:
            watched.connection = None
            if self._registered(watched.broker_id, watched.epoch) is None:
                self._watched.pop(watched.broker_id, None)
            elif watched.eligible:
                self._begin_round(watched, 1)

    def tick(self, now_ms: int) -> None:
        """Go on after a pause that is over."""
        for watched in list(self._watched.values()):
            if watched.again_at_ms is not None and now_ms >= watched.again_at_ms:
                watched.again_at_ms = None
                if self._registered(watched.broker_id, watched.epoch) is not None:
                    self._begin_round(watched, 1)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        if not self._watched:
            return None
        return min((at for each in self._watched.values() if (at := each.again_at_ms) is not None), default=None)

    def probed(self, correlation: int, failure: SendFailure | None, now_ms: int) -> None:
        """How a `Probe` ended."""
        asked = self._asked.pop(correlation, None)
        if asked is None:
            return
        watched, round_, address = asked
        if self._watched.get(watched.broker_id) is not watched:
            return
        if round_ == 0:
            if failure is None:
                watched.eligible.add(address)
        elif round_ == watched.round:
            self._heard_of_round(watched, failure, now_ms)

    def _heard_of_round(self, watched: _Watched, failure: SendFailure | None, now_ms: int) -> None:
        if failure is not SendFailure.REFUSED:
            watched.round = 0
            if failure is None and watched.pauses < len(PAUSES_MS):
                watched.again_at_ms = now_ms + PAUSES_MS[watched.pauses]
                watched.pauses += 1
            return
        watched.waiting -= 1
        if watched.waiting:
            return
        if watched.round < ROUNDS:
            self._begin_round(watched, watched.round + 1)
        else:
            del self._watched[watched.broker_id]
            self._gone(watched.broker_id, watched.epoch)

    def _begin_round(self, watched: _Watched, number: int) -> None:
        watched.round = number
        watched.waiting = len(watched.eligible)
        for address in sorted(watched.eligible):
            self._ask(watched, number, address)

    def _ask(self, watched: _Watched, round_: int, address: Address) -> None:
        correlation = next(self._numbers)
        self._asked[correlation] = (watched, round_, address)
        self._probe(Probe(correlation=correlation, host=address[0], port=address[1]))

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerRegistration | None:
        """The broker's registration, while it is of that epoch and this node's controller decides."""
        if not self._is_active():
            self._watched.clear()
            return None
        found = self._image().cluster.brokers.get(broker_id)
        return found if found is not None and found.broker_epoch == broker_epoch else None
