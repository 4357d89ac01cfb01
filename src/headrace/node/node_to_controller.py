"""The way of a node's requests to the active controller: Kafka's NodeToControllerChannelManager, with Envelopes (KIP-590; B-C28, B-K11).

waiting -> asked here                 the controller of this process is active
waiting -> asked there                another node leads, and where it listens is known
asked   -> waiting                    NOT_CONTROLLER, a lost connection, or another leader: again, after a moment or at once
waiting, asked -> answered            by the controller; or at the deadline, with REQUEST_TIMED_OUT in the API's own response
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.controller.refusals import refused
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.core.peers import Destination, SendFailure
from headrace.node.answers import has_error
from headrace.node.local_controller import LocalController
from headrace.node.outbound import Channel, Outbound, Outcome
from headrace.rpc.apis import OF_QUORUM
from headrace.rpc.context import RequestContext
from headrace.rpc.purgatory import Purgatory
from headrace.rpc.reply import AnyReply, Deferred, Reply
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest
from headrace.wire.messages.envelope import EnvelopeResponse
from headrace.wire.versions import response_class

RETRY_MS = 50
"""How long a request waits after a failure, unless a leader is heard of sooner."""

_LEADER = "leader"
"""What all requests wait for in the purgatory, beside their deadlines: another leader, or the way to it."""
_LIFE = (BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerRegistrationRequest)


@dataclass(slots=True, kw_only=True, eq=False)
class _QueuedRequest:
    """One request on its way. `attempt` tells the outcome of an attempt that was given up from that of the present one."""

    request: Any
    context: RequestContext
    deadline_ms: int
    asked_ms: int
    answer: Deferred
    attempt: int = 0
    is_asked: bool = False
    again_at_ms: int = 0


class NodeToControllerChannel:
    """The active controller as the parts of this node see it. Implements `broker.ports.ControllerChannel`.

    What this node asks itself (`context.is_internal`) goes as it is; clients' requests travel in an Envelope. Driven by `node.machine`.
    """

    def __init__(
        self, *, node_id: int, local: LocalController, outbound: Outbound, now_ms: Callable[[], int], timeout_ms: int
    ) -> None:
        """`timeout_ms` bounds one attempt."""
        self._node_id = node_id
        self._local = local
        self._outbound = outbound
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms
        self._purgatory = Purgatory()
        self._retries: deque[tuple[int, _QueuedRequest]] = deque()
        self._stay_asked = False
        self._leader_id = -1
        self._epoch = -1
        self._to: Destination | None = None
        self.on_waiting: Callable[[], None] = _nobody
        """Told when `next_deadline_ms` may be sooner than before."""
        self.on_answered: Callable[[str, int], None] | None = None
        """Told the class of each request that the controller answered, and how many ms that took; for metrics (S4-59)."""

    def send(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """Have the active controller answer; see `ControllerChannel.send`."""
        queued = _QueuedRequest(
            request=request,
            context=context,
            deadline_ms=deadline_ms,
            asked_ms=self._now_ms(),
            answer=Deferred(deadline_ms=deadline_ms, on_timeout=lambda: self._too_late(queued)),
        )
        self._purgatory.watch(queued.answer, (_LEADER,), lambda: self._leader_moved(queued))
        self._try(queued)
        self.on_waiting()
        return queued.answer

    # --- the node's calls ---

    def leader_changed(self, leader_id: int, epoch: int, to: Destination | None) -> None:
        """Another controller leads, or nobody (-1), or it is known now where it listens: ask again at once.

        What was asked of the very same node stays asked, though that leads another epoch by now: it will answer, and asked twice it might
        do it twice.
        """
        if (leader_id, epoch, to) == (self._leader_id, self._epoch, self._to):
            return
        self._stay_asked = (leader_id, to) == (self._leader_id, self._to)
        self._leader_id, self._epoch, self._to = leader_id, epoch, to
        self._purgatory.moved(_LEADER)

    def activity_changed(self) -> None:
        """The controller of this process became active: what waited goes in."""
        if self._local.is_active:
            self._stay_asked = True
            self._purgatory.moved(_LEADER)

    def tick(self, now_ms: int) -> None:
        """Try again what is due, give up what is late."""
        self._purgatory.expire(now_ms)
        retries = self._retries
        while retries and retries[0][0] <= now_ms:
            at_ms, queued = retries.popleft()
            if _is_due(queued, at_ms):
                self._try(queued)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        retries = self._retries
        while retries and not _is_due(retries[0][1], retries[0][0]):
            retries.popleft()
        late_ms = self._purgatory.next_deadline_ms()
        if not retries:
            return late_ms
        return retries[0][0] if late_ms is None else min(late_ms, retries[0][0])

    # --- attempts ---

    def _try(self, queued: _QueuedRequest) -> None:
        queued.attempt += 1
        queued.is_asked = True  # what is asked here may lead to `activity_changed` before the call returns
        attempt = queued.attempt
        is_quorums = queued.request.SCHEMA.api_key in OF_QUORUM
        if is_quorums and self._leader_id == self._node_id:
            self._ask_here(queued, attempt, self._local.ask_raft(queued.request, queued.context))
        elif self._local.is_active and not is_quorums:
            asked = self._local.ask(queued.request, queued.context, deadline_ms=queued.deadline_ms)
            self._ask_here(queued, attempt, asked)
        elif self._to is not None and self._leader_id not in (-1, self._node_id):
            self._ask_there(queued, self._to)
        else:
            self._later(queued)

    def _leader_moved(self, queued: _QueuedRequest) -> bool:
        """Ask again what is not asked, or was asked of somebody else; whether it is answered by that."""
        if not (self._stay_asked and queued.is_asked):
            queued.is_asked = False
            self._try(queued)
        return queued.answer.is_done

    def _ask_here(self, queued: _QueuedRequest, attempt: int, asked: Deferred) -> None:
        asked.when_done(lambda reply: self._answered_here(queued, attempt, reply))

    def _answered_here(self, queued: _QueuedRequest, attempt: int, reply: AnyReply) -> None:
        if queued.attempt == attempt and not queued.answer.is_done:
            assert isinstance(reply, Reply), "the controller answers with a message"
            self._answered(queued, reply.message)

    def _ask_there(self, queued: _QueuedRequest, to: Destination) -> None:
        attempt, context = queued.attempt, queued.context
        channel, request = Channel.FORWARDING, queued.request
        if isinstance(request, _LIFE):
            channel = Channel.HEARTBEAT
        elif context.is_internal:
            channel = Channel.ALTER_PARTITION
        else:
            from headrace.node.envelope import enclose  # a node alone forwards nothing

            request = enclose(request, context)
        self._outbound.send(
            to,
            channel,
            request,
            timeout_ms=max(min(queued.deadline_ms - self._now_ms(), self._timeout_ms), 1),
            then=lambda outcome: self._came_back(queued, attempt, outcome),
        )

    def _came_back(self, queued: _QueuedRequest, attempt: int, outcome: Outcome) -> None:
        if queued.attempt != attempt or queued.answer.is_done:
            return
        if outcome is SendFailure.UNSUPPORTED_VERSION and not queued.context.is_internal:
            self._refuse(queued, ErrorCode.UNSUPPORTED_VERSION, "The active controller does not support this.")
        elif isinstance(
            outcome, SendFailure
        ):  # who does not know the requests of brokers is no controller: look again later
            self._later(queued)
        elif isinstance(outcome, EnvelopeResponse):
            self._opened(queued, outcome)
        else:
            self._answered(queued, outcome)

    def _opened(self, queued: _QueuedRequest, outer: EnvelopeResponse) -> None:
        if outer.error_code == ErrorCode.NOT_CONTROLLER:
            self._later(queued)
            return
        if outer.error_code or outer.response_data is None:
            error = ErrorCode.known(outer.error_code)
            told = error if error is ErrorCode.UNSUPPORTED_VERSION else ErrorCode.UNKNOWN_SERVER_ERROR
            self._refuse(queued, told, f"The active controller refused the forwarded request: {error.name}.")
            return
        from headrace.node.envelope import opened_response  # as in `_ask_there`

        context = queued.context
        try:
            inner = opened_response(
                outer.response_data,
                response_class(queued.request.SCHEMA.api_key),
                api_key=context.api_key,
                api_version=context.api_version,
            )
        except DecodeError as error:
            self._refuse(queued, ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller's answer cannot be read: {error}")
            return
        self._answered(queued, inner)

    def _answered(self, queued: _QueuedRequest, response: object) -> None:
        """The answer, unless its giver was no active controller (any more)."""
        if has_error(response, ErrorCode.NOT_CONTROLLER):
            self._later(queued)
            return
        if self.on_answered is not None:
            self.on_answered(type(queued.request).__name__, self._now_ms() - queued.asked_ms)
        queued.answer.complete(Reply(response))

    def _later(self, queued: _QueuedRequest) -> None:
        queued.is_asked = False
        queued.again_at_ms = self._now_ms() + RETRY_MS
        self._retries.append((queued.again_at_ms, queued))
        self.on_waiting()

    def _refuse(self, queued: _QueuedRequest, error: ErrorCode, message: str) -> None:
        queued.answer.complete(Reply(_refusal(queued, PeerError(error, message))))

    def _too_late(self, queued: _QueuedRequest) -> Reply:
        return Reply(
            _refusal(
                queued,
                PeerError(
                    ErrorCode.REQUEST_TIMED_OUT, "No controller answered in time: `headrace quorum explain` says why."
                ),
            )
        )


def _is_due(queued: _QueuedRequest, at_ms: int) -> bool:
    """Whether it still waits for the attempt that was set for then."""
    return not queued.is_asked and queued.again_at_ms == at_ms and not queued.answer.is_done


def _refusal(queued: _QueuedRequest, error: PeerError) -> object:
    return refused(queued.request, error, api_version=queued.context.api_version)


def _nobody() -> None:
    """Nobody sleeps until a deadline."""
