"""How does a request of this node reach the active controller, wherever that is, and when is it tried again? (B-C28, B-K11)

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
from headrace.node.controller_channel import LocalController
from headrace.node.outbound import Outbound, Outcome, Purpose
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
"""How long a question waits after a failure, unless a leader is heard of sooner."""

_LEADER = "leader"
"""What all questions wait for in the purgatory, beside their deadlines: another leader, or the way to it."""
_LIFE = (BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerRegistrationRequest)


@dataclass(slots=True, kw_only=True, eq=False)
class _Question:
    """One request on its way. `attempt` tells the outcome of an attempt that was given up from that of the present one."""

    request: Any
    context: RequestContext
    deadline_ms: int
    asked_ms: int
    answer: Deferred
    attempt: int = 0
    is_asked: bool = False
    again_at_ms: int = 0


class ActiveController:
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
        self._waiting = Purgatory()
        self._retries: deque[tuple[int, _Question]] = deque()
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
        question = _Question(
            request=request,
            context=context,
            deadline_ms=deadline_ms,
            asked_ms=self._now_ms(),
            answer=Deferred(deadline_ms=deadline_ms, on_timeout=lambda: self._too_late(question)),
        )
        self._waiting.watch(question.answer, (_LEADER,), lambda: self._leader_moved(question))
        self._try(question)
        self.on_waiting()
        return question.answer

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
        self._waiting.moved(_LEADER)

    def activity_changed(self) -> None:
        """The controller of this process became active: what waited goes in."""
        if self._local.is_active:
            self._stay_asked = True
            self._waiting.moved(_LEADER)

    def tick(self, now_ms: int) -> None:
        """Try again what is due, give up what is late."""
        self._waiting.expire(now_ms)
        retries = self._retries
        while retries and retries[0][0] <= now_ms:
            at_ms, question = retries.popleft()
            if _is_due(question, at_ms):
                self._try(question)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        retries = self._retries
        while retries and not _is_due(retries[0][1], retries[0][0]):
            retries.popleft()
        late_ms = self._waiting.next_deadline_ms()
        if not retries:
            return late_ms
        return retries[0][0] if late_ms is None else min(late_ms, retries[0][0])

    # --- attempts ---

    def _try(self, question: _Question) -> None:
        question.attempt += 1
        question.is_asked = True  # what is asked here may lead to `activity_changed` before the call returns
        attempt = question.attempt
        is_quorums = question.request.SCHEMA.api_key in OF_QUORUM
        if is_quorums and self._leader_id == self._node_id:
            self._ask_here(question, attempt, self._local.ask_raft(question.request, question.context))
        elif self._local.is_active and not is_quorums:
            asked = self._local.ask(question.request, question.context, deadline_ms=question.deadline_ms)
            self._ask_here(question, attempt, asked)
        elif self._to is not None and self._leader_id not in (-1, self._node_id):
            self._ask_there(question, self._to)
        else:
            self._later(question)

    def _leader_moved(self, question: _Question) -> bool:
        """Ask again what is not asked, or was asked of somebody else; whether it is answered by that."""
        if not (self._stay_asked and question.is_asked):
            question.is_asked = False
            self._try(question)
        return question.answer.is_done

    def _ask_here(self, question: _Question, attempt: int, asked: Deferred) -> None:
        asked.when_done(lambda reply: self._answered_here(question, attempt, reply))

    def _answered_here(self, question: _Question, attempt: int, reply: AnyReply) -> None:
        if question.attempt == attempt and not question.answer.is_done:
            assert isinstance(reply, Reply), "the controller answers with a message"
            self._answered(question, reply.message)

    def _ask_there(self, question: _Question, to: Destination) -> None:
        attempt, context = question.attempt, question.context
        purpose, request = Purpose.FORWARDING, question.request
        if isinstance(request, _LIFE):
            purpose = Purpose.HEARTBEAT
        elif context.is_internal:
            purpose = Purpose.REPLICATION
        else:
            from headrace.node.envelope import enclose  # a node alone forwards nothing

            request = enclose(request, context)
        self._outbound.send(
            to,
            purpose,
            request,
            timeout_ms=max(min(question.deadline_ms - self._now_ms(), self._timeout_ms), 1),
            then=lambda outcome: self._came_back(question, attempt, outcome),
        )

    def _came_back(self, question: _Question, attempt: int, outcome: Outcome) -> None:
        if question.attempt != attempt or question.answer.is_done:
            return
        if outcome is SendFailure.UNSUPPORTED_VERSION and not question.context.is_internal:
            self._refuse(question, ErrorCode.UNSUPPORTED_VERSION, "The active controller does not support this.")
        elif isinstance(
            outcome, SendFailure
        ):  # who does not know the requests of brokers is no controller: look again later
            self._later(question)
        elif isinstance(outcome, EnvelopeResponse):
            self._opened(question, outcome)
        else:
            self._answered(question, outcome)

    def _opened(self, question: _Question, outer: EnvelopeResponse) -> None:
        if outer.error_code == ErrorCode.NOT_CONTROLLER:
            self._later(question)
            return
        if outer.error_code or outer.response_data is None:
            error = ErrorCode.known(outer.error_code)
            told = error if error is ErrorCode.UNSUPPORTED_VERSION else ErrorCode.UNKNOWN_SERVER_ERROR
            self._refuse(question, told, f"The active controller refused the forwarded request: {error.name}.")
            return
        from headrace.node.envelope import opened_response  # as in `_ask_there`

        context = question.context
        try:
            inner = opened_response(
                outer.response_data,
                response_class(question.request.SCHEMA.api_key),
                api_key=context.api_key,
                api_version=context.api_version,
            )
        except DecodeError as error:
            self._refuse(question, ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller's answer cannot be read: {error}")
            return
        self._answered(question, inner)

    def _answered(self, question: _Question, response: object) -> None:
        """The answer, unless its giver was no active controller (any more)."""
        if has_error(response, ErrorCode.NOT_CONTROLLER):
            self._later(question)
            return
        if self.on_answered is not None:
            self.on_answered(type(question.request).__name__, self._now_ms() - question.asked_ms)
        question.answer.complete(Reply(response))

    def _later(self, question: _Question) -> None:
        question.is_asked = False
        question.again_at_ms = self._now_ms() + RETRY_MS
        self._retries.append((question.again_at_ms, question))
        self.on_waiting()

    def _refuse(self, question: _Question, error: ErrorCode, message: str) -> None:
        question.answer.complete(Reply(_refusal(question, PeerError(error, message))))

    def _too_late(self, question: _Question) -> Reply:
        return Reply(_refusal(question, PeerError(ErrorCode.REQUEST_TIMED_OUT, "No controller answered in time.")))


def _is_due(question: _Question, at_ms: int) -> bool:
    """Whether it still waits for the attempt that was set for then."""
    return not question.is_asked and question.again_at_ms == at_ms and not question.answer.is_done


def _refusal(question: _Question, error: PeerError) -> object:
    return refused(question.request, error, api_version=question.context.api_version)


def _nobody() -> None:
    """Nobody sleeps until a deadline."""
