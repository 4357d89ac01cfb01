"""Requests of this node on their way, and whom it may ask again now.

At most one request of a purpose to a peer at a time. A peer that does not answer is left alone for a while that doubles, up to a limit
(S1-21, S1-22); a connection that broke is tried again at once, once, because a process that died shows itself by refusing the next one.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from headrace.core.peers import Destination, SendFailure
from headrace.core.values import value_class
from headrace.raft.events import SendRaftRequest

if TYPE_CHECKING:
    from headrace.core.ports import Rng
    from headrace.raft.config import RaftConfig
    from headrace.raft.events import OutboundRequest


class Purpose(Enum):
    """What a request is for."""

    PRE_VOTE = "pre-vote"
    VOTE = "vote"
    BEGIN_EPOCH = "begin epoch"
    END_EPOCH = "end epoch"
    FETCH = "fetch"
    FIND_LEADER = "find leader"
    FETCH_SNAPSHOT = "fetch snapshot"
    ASK_VERSIONS = "ask versions"
    UPDATE_VOTER = "update voter"
    JOIN = "join"


@value_class
class Flight:
    """A request on its way: sent in `epoch` to `to`; `position` is where a fetch of log or snapshot began."""

    correlation: int
    purpose: Purpose
    to: Destination
    epoch: int
    position: int = -1


class Outbox:
    """Numbers requests, matches answers, and knows who is left alone until when."""

    def __init__(self, config: RaftConfig, rng: Rng) -> None:
        self._config = config
        self._rng = rng
        self._next_correlation = 1
        self._flights: dict[int, Flight] = {}
        self._busy: dict[tuple[Purpose, Destination], int] = {}
        self._alone: dict[Destination, tuple[int, int]] = {}
        self.refusing: dict[int, bool] = {}
        """Node ids whose host said last that nobody listens."""

    def is_busy(self, purpose: Purpose, to: Destination) -> bool:
        """Such a request to it is on its way."""
        return (purpose, to) in self._busy

    def ready_at(self, to: Destination) -> int:
        """Not to be asked before (ms); 0 = at any time."""
        left_alone = self._alone.get(to)
        return 0 if left_alone is None else left_alone[1]

    def send(
        self, purpose: Purpose, to: Destination, request: OutboundRequest, *, epoch: int, position: int = -1
    ) -> SendRaftRequest:
        """The effect that sends it."""
        correlation = self._next_correlation
        self._next_correlation += 1
        self._flights[correlation] = Flight(
            correlation=correlation, purpose=purpose, to=to, epoch=epoch, position=position
        )
        self._busy[purpose, to] = correlation
        return SendRaftRequest(
            correlation=correlation, to=to, request=request, timeout_ms=self._config.request_timeout_ms
        )

    def answered(self, correlation: int) -> Flight | None:
        """What the answer is to, None for a stranger's; the peer is well."""
        flight = self._landed(correlation)
        if flight is not None:
            self._alone.pop(flight.to, None)
            self.refusing.pop(flight.to.node_id, None)
        return flight

    def failed(self, correlation: int, failure: SendFailure, now_ms: int) -> Flight | None:
        """What failed, None for a stranger. The peer is left alone for a while, unless it only knows no pre-votes: then it is there, and the
        vote follows at once.
        """
        flight = self._landed(correlation)
        if flight is None:
            return None
        if failure is SendFailure.UNSUPPORTED_VERSION and flight.purpose is Purpose.PRE_VOTE:
            self.heard_from(flight.to.node_id)
            return flight
        if failure is SendFailure.REFUSED and flight.to.node_id >= 0:
            self.refusing[flight.to.node_id] = True
        self.leave_alone(flight.to, now_ms, is_first_free=failure is SendFailure.DISCONNECTED)
        return flight

    def leave_alone(self, to: Destination, now_ms: int, *, is_first_free: bool = False) -> None:
        """The peer did not help: it is asked again after retry.backoff.ms, doubled each time, with 20 % of chance."""
        failures = self._alone.get(to, (0, 0))[0] + 1
        wait = 0
        if failures > 1 or not is_first_free:
            wait = min(self._config.retry_backoff_ms << min(failures - 1, 16), self._config.retry_backoff_max_ms)
            wait = int(wait * (0.8 + 0.4 * self._rng.random()))
        self._alone[to] = (failures, now_ms + wait)

    def heard_from(self, node_id: int) -> None:
        """It asks us, so it is alive: it may be asked at once."""
        self.refusing.pop(node_id, None)
        for to in [each for each in self._alone if each.node_id == node_id]:
            del self._alone[to]

    def forget_flights(self) -> None:
        """Epoch or leader changed: what is on its way holds nothing up any more. Late answers still find their flight."""
        self._busy.clear()

    def _landed(self, correlation: int) -> Flight | None:
        flight = self._flights.pop(correlation, None)
        if flight is not None and self._busy.get((flight.purpose, flight.to)) == correlation:
            del self._busy[flight.purpose, flight.to]
        return flight
