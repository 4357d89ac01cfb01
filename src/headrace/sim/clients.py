"""Clients of a cluster that is being broken, and what became of each call.

`administrators` and `scripted_broker` say what is called. A call ends ok, failed or unknown; a call whose answer says that the controller
moved may still have happened, so it is unknown too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.error_code import ErrorCode
from headrace.core.peers import Destination, SendFailure
from headrace.sim.network import BytesCall
from headrace.sim.observation import CallEnded, CallStarted, Outcome, StepKind
from headrace.sim.serving import CONTROLLER_PORT

if TYPE_CHECKING:
    import random

    from headrace.metadata.image import MetadataImage
    from headrace.sim.links import Server
    from headrace.sim.node import SimNode
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message

LONGEST_CALL_MS: Final = 6_000
"""No call is waited for longer."""

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class Client:
    """Calls one at a time. Implements `network.Caller`; a client has an id below zero."""

    is_up = True
    run = 1

    def __init__(self, cluster: Stage, client_id: int) -> None:
        self.cluster = cluster
        self.node_id = client_id
        self.chance: random.Random = cluster.world.chance(f"client {client_id}")
        self._call = 0
        self._request: Message | None = None
        self._asked: SimNode | None = None

    @property
    def is_waiting(self) -> bool:
        """A call has no outcome yet."""
        return self._request is not None

    def begin(self, wait_ms: int) -> None:
        """Do something in a while."""
        self.cluster.world.schedule.after(wait_ms * 1_000, self._due)

    @property
    def is_at_rest(self) -> bool:
        """It begins nothing any more."""
        return self.cluster.clients_rest

    def _due(self, _one: object, _two: object) -> None:
        if not self.is_at_rest and not self.is_waiting:
            self.act()

    def act(self) -> None:
        """Make a call, or `begin` again."""
        raise NotImplementedError

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """The outcome of a call is known, or known to be unknown."""
        raise NotImplementedError

    def images(self) -> list[MetadataImage]:
        """The metadata as each controller that is up has it: where a client looks before it asks for something."""
        return [one.image for one in self.cluster.controllers if one.image is not None]

    def ask_controller(self, request: Message, *, timeout_ms: int = 3_000) -> None:
        """Call the controller that probably leads, now and then any other."""
        cluster = self.cluster
        leader = cluster.leader()
        if leader is None or self.chance.random() < 0.1:
            leader = self.chance.choice(cluster.controllers)
        self.ask(leader, request, CONTROLLER_PORT, timeout_ms=timeout_ms)

    def ask(self, node: SimNode, request: Message, port: int, *, timeout_ms: int, version: int = -1) -> None:
        """Call one node; with a `version` in bytes."""
        world = self.cluster.world
        self._call += 1
        self._request, self._asked = request, node
        call_id = -self.node_id * 1_000_000 + self._call
        started = CallStarted(call_id=call_id, client_id=-self.node_id, request=request, api_version=version)
        node.note(StepKind.CALL, started)
        to, timeout_us = Destination(node.node_id, node.host, port), timeout_ms * 1_000
        if version < 0:
            world.network.send(self, to, "client", self._call, request, timeout_us=timeout_us)
        else:
            world.network.send_bytes(self, to, BytesCall(self._call, request, version), timeout_us=timeout_us)

    def heard(self, correlation: int, outcome: Message | SendFailure, source: Server | None) -> None:
        """See `network.Caller`."""
        request, node = self._request, self._asked
        if correlation != self._call or request is None or node is None:
            return
        self._request = None
        response = None if isinstance(outcome, SendFailure) else outcome
        known = judged(outcome)
        ended = CallEnded(
            call_id=-self.node_id * 1_000_000 + self._call,
            client_id=-self.node_id,
            request=request,
            response=None if known is Outcome.UNKNOWN else response,
            outcome=known,
        )
        node.note(StepKind.CALL, ended)
        self.ended(request, response, known)


def judged(outcome: Message | SendFailure) -> Outcome:
    """What an answer says about whether the call took effect."""
    if isinstance(outcome, SendFailure):
        return Outcome.FAILED if outcome is SendFailure.REFUSED else Outcome.UNKNOWN
    codes = sorted(set(error_codes(outcome)))
    if any(ErrorCode(code) in _MOVED for code in codes):
        return Outcome.UNKNOWN
    return Outcome.OK if not any(codes) else Outcome.FAILED


def error_codes(response: Any) -> list[int]:
    """All error codes in a response, at the top and one level below."""
    found = [response.error_code] if hasattr(response, "error_code") else []
    for name in ("topics", "responses", "results", "replica_election_results"):
        for each in getattr(response, name, ()):
            if hasattr(each, "error_code"):
                found.append(each.error_code)
            for below in ("partitions", "partition_result"):
                found += [one.error_code for one in getattr(each, below, ()) if hasattr(one, "error_code")]
    return found
