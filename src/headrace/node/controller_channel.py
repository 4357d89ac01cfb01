"""How do requests of this process reach the controller in it, and how do answers find back?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from headrace.broker.context import RequestContext
from headrace.broker.reply import Deferred, Reply
from headrace.controller.events import RequestArrived, RequestCause
from headrace.raft.events import RaftRequestArrived
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.schema import Message


class LocalController:
    """The controller and the quorum node of this process, as their askers see them. Implements `broker.ports.ControllerChannel`.

    Requests for the controller that come before it is active wait for it until their deadline; then the controller refuses them itself.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        step: Callable[[RequestArrived | RaftRequestArrived], None],
        is_active: Callable[[], bool],
    ) -> None:
        self._now_ms = now_ms
        self._step = step
        self._is_active = is_active
        self._tokens = count(1)
        self._asked: dict[int, Deferred] = {}
        self._held: list[RequestArrived] = []

    def send(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """Ask the controller, when it is active; a question about the quorum goes to the quorum node."""
        if isinstance(request, DescribeQuorumRequest):
            return self.ask_raft(request, context)
        event = self._arrived(request, context, deadline_ms)
        deferred = self._asked[event.token] = Deferred()
        if self._is_active():
            self._step(event)
        else:
            self._held.append(event)
        return deferred

    def ask(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """Ask the controller as it is: a standby refuses (S1-52)."""
        event = self._arrived(request, context, deadline_ms)
        deferred = self._asked[event.token] = Deferred()
        self._step(event)
        return deferred

    def ask_raft(self, request: object, context: RequestContext) -> Deferred:
        """Ask the quorum node."""
        token = next(self._tokens)
        deferred = self._asked[token] = Deferred()
        self._step(
            RaftRequestArrived(
                token=token,
                request=request,  # type: ignore[arg-type]
                api_version=context.api_version,
                listener=context.listener,
                now_ms=self._now_ms(),
            )
        )
        return deferred

    def answered(self, token: int, response: Message) -> None:
        """The answer for a token has come."""
        deferred = self._asked.pop(token, None)
        if deferred is not None:
            deferred.complete(Reply(response))

    def activity_changed(self) -> None:
        """The controller became active: what was held goes in now."""
        if self._held and self._is_active():
            held, self._held = self._held, []
            for event in held:
                self._step(event)

    def tick(self, now_ms: int) -> None:
        """Held requests whose deadline has come go in all the same, to be refused."""
        late = [event for event in self._held if event.deadline_ms <= now_ms]
        if late:
            self._held = [event for event in self._held if event.deadline_ms > now_ms]
            for event in late:
                self._step(event)

    def _arrived(self, request: object, context: RequestContext, deadline_ms: int) -> RequestArrived:
        return RequestArrived(
            token=next(self._tokens),
            request=request,
            cause=RequestCause(
                api_version=context.api_version,
                principal=context.principal,
                client_id=context.client_id,
                client_host=context.client_host,
                listener="" if context.is_internal else context.listener,
            ),
            now_ms=self._now_ms(),
            deadline_ms=deadline_ms,
        )
