"""The controller and the quorum node of this process, for whoever asks them: requests go in, responses find back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from headrace.controller.events import RequestArrived, RequestCause
from headrace.raft.events import RaftRequestArrived
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.schema import Message


class LocalController:
    """The controller and the quorum node of this process, as their askers see them; it numbers what is asked."""

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        step: Callable[[RequestArrived | RaftRequestArrived], None],
        is_active: Callable[[], bool],
        node_id: int = -1,
    ) -> None:
        self._now_ms = now_ms
        self._step = step
        self._is_active = is_active
        self._node_id = node_id
        self._tokens = count(1)
        self._asked: dict[int, Deferred] = {}

    @property
    def is_active(self) -> bool:
        """The controller of this process decides."""
        return self._is_active()

    def ask(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """Ask the controller as it is: a standby refuses (S1-52)."""
        token = next(self._tokens)
        deferred = self._asked[token] = Deferred()
        self._step(
            RequestArrived(
                token=token,
                request=request,
                cause=RequestCause(
                    api_version=context.api_version,
                    principal=context.principal,
                    client_id=context.client_id,
                    client_host=context.client_host,
                    listener="" if context.is_internal else context.listener,
                    correlation_id=context.correlation_id,
                    through=context.forwarded_by if context.is_controller_listener else self._node_id,
                ),
                now_ms=self._now_ms(),
                deadline_ms=deadline_ms,
                received_ms=context.now_ms or -1,
            )
        )
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
