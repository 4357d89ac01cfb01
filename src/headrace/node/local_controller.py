"""The controller and the quorum node of this process, for whoever asks them: requests go in, responses find back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from headrace.controller.events import RequestArrived, RequestCause
from headrace.raft.events import RaftRequestArrived
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, Reply
from headrace.wire.messages.describe_quorum import (
    BrokerView,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    NodeView,
)
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
        self.node_view: Callable[[], NodeView] | None = None
        """What this node knows of the quorum, for who asks DescribeQuorum for it; None: it is not told."""
        self.broker_views: Callable[[], tuple[BrokerView, ...]] | None = None
        """The same for the brokers; of nothing where this controller is not active."""

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
                    is_direct=context.is_controller_listener and not context.is_forwarded,
                ),
                now_ms=self._now_ms(),
                deadline_ms=deadline_ms,
                received_ms=context.now_ms or -1,
            )
        )
        return deferred

    def ask_raft(self, request: object, context: RequestContext) -> Deferred:
        """Ask the quorum node. Its description has the views that are wanted beside it, whichever listener was asked."""
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
        if isinstance(request, DescribeQuorumRequest) and (request.wants_node_view or request.wants_broker_views):
            return self._with_views(request, deferred)
        return deferred

    def _with_views(self, request: DescribeQuorumRequest, asked: Deferred) -> Deferred:
        """The same answer, and beside it the views that are wanted: of this node, and of the brokers."""
        answer = Deferred(deadline_ms=asked.deadline_ms)

        def add(reply: AnyReply) -> None:
            if isinstance(reply, Reply) and isinstance(reply.message, DescribeQuorumResponse):
                nodes = (self.node_view(),) if request.wants_node_view and self.node_view is not None else ()
                brokers = self.broker_views() if self.broker_views is not None and request.wants_broker_views else ()
                reply = Reply(replace(reply.message, node_views=nodes, broker_views=brokers))
            answer.complete(reply)

        asked.when_done(add)
        return answer

    def answered(self, token: int, response: Message) -> None:
        """The answer for a token has come."""
        deferred = self._asked.pop(token, None)
        if deferred is not None:
            deferred.complete(Reply(response))
