"""The watch for brokers that are gone for sure, before their sessions end.

A broker that was killed on a living host answers: its connections are closed, and new ones are refused. The active controller watches the
connection on which each broker heartbeats. When that goes, it probes the broker's listeners (a TCP connect that sends no byte); when every
eligible one refuses, twice, the broker of that epoch is gone. Eligible is a listener that was reached before in the same broker epoch: with
none the session timeout decides, because refusals of localhost, containers and NAT may mean nothing. Standby controllers learn too who is eligible:
whoever becomes active looks at once for brokers that went with the controller before it, such as one in the same process.

Where a whole cluster ended at once no controller is left that reached anybody. Then a broker comes back and asks for its id before the session
ends that its former process was granted: by one that holds all of its log directories (each is locked by the process that uses it), while
this controller never heard the former one. Its listeners are probed as if they were eligible.

    unknown -> learning (unfenced)          each listener is probed once; those that answer are eligible
    watched -> probing (connection closed)  first round, then a second one
    watched -> probing (activity_changed)   the same for all brokers: none has a connection to a controller that is new
    unknown -> probing (succeeded)          another process came with the directories of one that was not heard
    probing -> gone (all refused twice)     or watched again: silence, or a heartbeat came on another connection
    probing -> pausing -> probing           a listener took the connect: a process that dies may close it last; a few times
    watched -> pausing (connection closed)  it closed a moment ago too

Whoever reaches the controllers' listener may register a broker, with whatever addresses there are, and open and close connections in its name. So
few addresses of a broker are probed, a broker is looked at anew once a second, and few probes are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from headrace.config.node_config import NodeConfig
from headrace.core.deadlines import earliest
from headrace.core.ids import Uuid
from headrace.core.peers import SendFailure
from headrace.core.values import value_class
from headrace.metadata.image import BrokerRegistration, MetadataImage

PROBE_TIMEOUT_MS = 1_000
ROUNDS = 2
_LEARN_AGAIN_MS = 10_000
_AT_ONCE = 50
"""Brokers that are probed in one turn of the loop: of very many none is held up for long."""
MOST_ADDRESSES = 8
"""Of one broker, the first of its registration: more than it has networks, and a registration may name hundreds. A process that is gone refuses at all."""
LOOKS_EVERY_MS = 1_000
"""A broker whose connection closes again sooner is looked at when so much time is over, if it was not heard until then."""
MOST_UNDER_WAY = 400
"""Probes: each is a socket, for a second where nobody answers. The others wait for them."""
PAUSES_MS = (20, 50, 100, 200, 400, 800)
"""How long after each connect that was taken the probing begins anew; then the session timeout decides."""

ConnectionName = tuple[str, int]
"""Listener and number of a connection to this node."""
Address = tuple[str, int]


@value_class
class Probe:
    """Connect to this address, send nothing, close; then call `NodeMachine.probed`: None for taken, else how it failed."""

    correlation: int
    host: str
    port: int
    timeout_ms: int = PROBE_TIMEOUT_MS


@dataclass(slots=True)
class _Watched:
    """One broker epoch. `asked` are the probes of the round that is under way, `round` 0 is none. `again_at_ms` ends a pause; no close is looked at before `look_at_ms`. `is_heard`, `is_succeeded`: in this activity."""

    broker_id: int
    epoch: int
    connection: ConnectionName | None = None
    eligible: set[Address] = field(default_factory=set)
    learn_at_ms: int = 0
    look_at_ms: int = 0
    round: int = 0
    asked: set[int] = field(default_factory=set)
    pauses: int = 0
    again_at_ms: int | None = None
    is_heard: bool = False
    is_succeeded: bool = False


class BrokerWatch:
    """Watches the brokers for a controller, and decides while that is active. Driven by `node.machine`; pure."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        image: Callable[[], MetadataImage],
        is_active: Callable[[], bool],
        probe: Callable[[Probe], None],
        gone: Callable[[int, int], None],
    ) -> None:
        """`gone` is told broker id and epoch. The node's own broker needs no watch."""
        self._node_id = config.node_id
        self._is_on = config.is_controller and config.headrace_fence_unreachable_brokers
        self._image = image
        self._is_active = is_active
        self._probe = probe
        self._gone = gone
        self._numbers = count(1)
        self._watched: dict[int, _Watched] = {}
        self._asked: dict[int, tuple[_Watched, bool, Address]] = {}
        self._was_active = False
        self._to_probe: dict[int, None] = {}
        self._to_learn: dict[int, None] = {}

    def activity_changed(self) -> None:
        """This node's controller may have become active, or resigned: every broker is looked at, in the next turns."""
        if self._is_active() is not self._was_active:
            self._was_active = not self._was_active
            for watched in self._watched.values():
                watched.connection, watched.again_at_ms = None, None
                watched.round = watched.pauses = watched.look_at_ms = 0
                watched.is_heard = watched.is_succeeded = False
            self._to_probe.clear()
            if self._was_active:
                self._to_probe = dict.fromkeys(sorted(self._watched))

    def heard(self, broker_id: int, broker_epoch: int, connection: ConnectionName, now_ms: int) -> None:
        """A heartbeat of a broker came on a connection of this node."""
        registered = self._registered(broker_id, broker_epoch)
        if registered is None or not self._is_on or not self._is_active():
            return
        watched = self._of_epoch(registered)
        watched.is_heard, watched.is_succeeded = True, False
        if watched.connection != connection:
            watched.connection = connection
            watched.round = watched.pauses = 0
            watched.again_at_ms = None
        self._learn(watched, registered, now_ms)

    def succeeded(self, broker_id: int, incarnation_id: Uuid, log_dirs: Iterable[Uuid]) -> None:
        """A process with these log directories asks for a broker's id."""
        registered = self._image().cluster.brokers.get(broker_id)
        if registered is None or registered.incarnation_id == incarnation_id or not registered.log_dirs:
            return
        if not self._is_wanted_of(broker_id):
            return
        watched = self._of_epoch(registered)
        is_looking = watched.round or watched.again_at_ms is not None or watched.pauses >= len(PAUSES_MS)
        if not watched.is_heard and not is_looking and set(registered.log_dirs) <= set(log_dirs):
            watched.is_succeeded = True
            self._look(watched)

    def changed(self, broker_ids: Iterable[int], now_ms: int) -> None:
        """These brokers' registrations changed: one that is unfenced has its listeners open."""
        brokers = self._image().cluster.brokers
        for broker_id in filter(self._is_wanted_of, broker_ids):
            registered = brokers.get(broker_id)
            if registered is None:
                self._watched.pop(broker_id, None)
            elif not registered.fenced:
                self._learn(self._of_epoch(registered), registered, now_ms)

    def _is_wanted_of(self, broker_id: int) -> bool:
        return self._is_on and broker_id != self._node_id

    def _of_epoch(self, registered: BrokerRegistration) -> _Watched:
        watched = self._watched.get(registered.broker_id)
        if watched is None or watched.epoch != registered.broker_epoch:
            watched = self._watched[registered.broker_id] = _Watched(registered.broker_id, registered.broker_epoch)
        return watched

    def _learn(self, watched: _Watched, registered: BrokerRegistration, now_ms: int) -> None:
        if watched.eligible or registered.fenced or now_ms < watched.learn_at_ms:
            return
        if not self._has_room:
            self._to_learn[watched.broker_id] = None
            return
        watched.learn_at_ms = now_ms + _LEARN_AGAIN_MS
        for address in _addresses_of(registered):
            self._ask(next(self._numbers), watched, address, is_learning=True)

    @property
    def _has_room(self) -> bool:
        """Whether another broker's listeners may be probed now."""
        return len(self._asked) < MOST_UNDER_WAY

    def closed(self, connection: ConnectionName, now_ms: int) -> None:
        """A connection to this node is gone."""
        for watched in [each for each in self._watched.values() if each.connection == connection]:
            watched.connection = None
            if now_ms < watched.look_at_ms:
                watched.again_at_ms = watched.look_at_ms
            else:
                watched.look_at_ms = now_ms + LOOKS_EVERY_MS
                self._look(watched)

    def _look(self, watched: _Watched) -> None:
        """Begin to probe, where refusals mean something and something would come of it."""
        registered = self._registered(watched.broker_id, watched.epoch)
        is_meaningful = bool(watched.eligible) or watched.is_succeeded
        if not is_meaningful or registered is None or registered.fenced or not self._is_active():
            return
        if self._has_room:
            self._begin_round(watched, registered, 1)
        else:
            self._to_probe[watched.broker_id] = None

    def tick(self, now_ms: int) -> None:
        """Go on with the brokers of a controller that is new, and after a pause that is over."""
        for broker_id in list(self._to_probe)[:_AT_ONCE] if self._has_room else ():
            del self._to_probe[broker_id]
            to_probe = self._watched.get(broker_id)
            if to_probe is not None and to_probe.connection is None and not to_probe.round:
                self._look(to_probe)
        for broker_id in list(self._to_learn)[:_AT_ONCE] if self._has_room else ():
            del self._to_learn[broker_id]
            self.changed((broker_id,), now_ms)
        for watched in list(self._watched.values()):
            if watched.again_at_ms is not None and now_ms >= watched.again_at_ms:
                watched.again_at_ms = None
                watched.look_at_ms = max(watched.look_at_ms, now_ms + LOOKS_EVERY_MS)
                self._look(watched)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        if not self._watched:
            return None
        if (self._to_probe or self._to_learn) and self._has_room:
            return 0
        return earliest([each.again_at_ms for each in self._watched.values()])

    def probed(self, correlation: int, failure: SendFailure | None, now_ms: int) -> None:
        """How a `Probe` ended."""
        asked = self._asked.pop(correlation, None)
        if asked is None:
            return
        watched, is_learning, address = asked
        if self._watched.get(watched.broker_id) is not watched:
            return
        if is_learning:
            if failure is None:
                watched.eligible.add(address)
        elif watched.round and correlation in watched.asked and self._is_active():
            watched.asked.discard(correlation)
            self._heard_of_round(watched, failure, now_ms)

    def _heard_of_round(self, watched: _Watched, failure: SendFailure | None, now_ms: int) -> None:
        if failure is not SendFailure.REFUSED:
            watched.round = 0
            if failure is None and watched.pauses < len(PAUSES_MS):
                watched.again_at_ms = now_ms + PAUSES_MS[watched.pauses]
            watched.pauses += 1
            return
        if watched.asked:
            return
        registered = self._registered(watched.broker_id, watched.epoch)
        if registered is None:
            return
        if watched.round < ROUNDS:
            self._begin_round(watched, registered, watched.round + 1)
        else:
            del self._watched[watched.broker_id]
            self._gone(watched.broker_id, watched.epoch)

    def _begin_round(self, watched: _Watched, registered: BrokerRegistration, number: int) -> None:
        addresses = _addresses_of(registered) if watched.is_succeeded else watched.eligible
        watched.round = number
        numbered = [(next(self._numbers), address) for address in sorted(addresses)]
        watched.asked = {correlation for correlation, _ in numbered}
        for correlation, address in numbered:
            self._ask(correlation, watched, address)

    def _ask(self, correlation: int, watched: _Watched, address: Address, *, is_learning: bool = False) -> None:
        self._asked[correlation] = (watched, is_learning, address)
        self._probe(Probe(correlation=correlation, host=address[0], port=address[1]))

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerRegistration | None:
        """The broker's registration, while it is of that epoch."""
        found = self._image().cluster.brokers.get(broker_id)
        return found if found is not None and found.broker_epoch == broker_epoch else None


def _addresses_of(registered: BrokerRegistration) -> list[Address]:
    """Where a broker is probed."""
    return list(dict.fromkeys((each.host, each.port) for each in registered.end_points))[:MOST_ADDRESSES]
