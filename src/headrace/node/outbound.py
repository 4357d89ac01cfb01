"""Requests of a node to other nodes: on which channel each goes, and whom its response or failure is brought to."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import count

from headrace.core.peers import Destination, SendFailure
from headrace.core.values import value_class
from headrace.wire.schema import Message


class Channel(Enum):
    """What a connection to another node is for. Each channel has a connection of its own, so that a vote never waits behind a fetch (B-R28)."""

    VOTING = "voting"
    """Vote, BeginQuorumEpoch, EndQuorumEpoch, voter changes, ApiVersions of the quorum."""
    FETCHING = "fetching"
    """Fetch and FetchSnapshot of the metadata log, which wait for news."""
    HEARTBEAT = "heartbeat"
    """Registration and heartbeats of a broker or a controller."""
    FORWARDING = "forwarding"
    """Clients' requests on their way to the active controller."""
    ALTER_PARTITION = "alter-partition"
    """What a broker itself asks of the active controller: ISR changes, blocks of producer ids."""
    REPLICATION = "replication"
    """Fetch of the partitions that the other broker leads, which waits for news."""
    REPLICA_OFFSETS = "replica-offsets"
    """What a follower asks its leader beside that."""
    BOOTSTRAP = "bootstrap"
    """Requests of the quorum to an address that may stand for several nodes: the connection ends with the response (S4-01, S4-17)."""


@value_class
class SendRequest:
    """Send a request on this node's connection to `to` for that channel, connecting first when there is none.

    The driver chooses the highest version that both sides know, and calls `NodeMachine.answered` or `NodeMachine.failed` with the
    `correlation`, once. Without an answer after `timeout_ms` (connecting included) it drops the connection and says TIMED_OUT.
    """

    correlation: int
    to: Destination
    channel: Channel
    request: Message
    timeout_ms: int
    lane: int = 0
    """Which of several connections of the channel: their requests do not wait for each other."""

    @property
    def api_key(self) -> int:
        """Of the request."""
        return self.request.SCHEMA.api_key


Outcome = Message | SendFailure
"""The response, or why there is none."""


class Outbound:
    """Numbers the requests of one node's parts and brings each outcome to who sent it. Used by `node.machine` only."""

    def __init__(self, do: Callable[[SendRequest], None]) -> None:
        self._do = do
        self._numbers = count(1)
        self._waiting: dict[int, Callable[[Outcome], None]] = {}

    def send(
        self,
        to: Destination,
        channel: Channel,
        request: Message,
        *,
        timeout_ms: int,
        then: Callable[[Outcome], None],
        lane: int = 0,
    ) -> None:
        """Send; `then` is called with the outcome, once."""
        correlation = next(self._numbers)
        self._waiting[correlation] = then
        self._do(
            SendRequest(
                correlation=correlation, to=to, channel=channel, request=request, timeout_ms=timeout_ms, lane=lane
            )
        )

    def arrived(self, correlation: int, outcome: Outcome) -> None:
        """The outcome of a request; one that nobody waits for is dropped."""
        then = self._waiting.pop(correlation, None)
        if then is not None:
            then(outcome)


class BrokerLinks:
    """The way to other brokers for followers. Implements `broker.replica_fetchers.PeerChannel`."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound

    def fetch(
        self, to: Destination, request: Message, *, number: int, timeout_ms: int, then: Callable[[Outcome], None]
    ) -> None:
        """Send a Fetch of replicas, on a connection of the fetcher with that number."""
        self._outbound.send(to, Channel.REPLICATION, request, timeout_ms=timeout_ms, then=then, lane=number)

    def ask(self, to: Destination, request: Message, *, timeout_ms: int, then: Callable[[Outcome], None]) -> None:
        """Send anything else."""
        self._outbound.send(to, Channel.REPLICA_OFFSETS, request, timeout_ms=timeout_ms, then=then)
