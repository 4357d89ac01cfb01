"""The quorum as its leader sees it, or as this node sees it (DescribeQuorum)."""

from __future__ import annotations

from dataclasses import replace

from headrace.node.controller_server import ControllerServer
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, Reply
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(request: DescribeQuorumRequest, context: RequestContext, server: ControllerServer) -> Deferred | Reply:
    """The leader describes the quorum. Who wants a view of this very node, leader or not, asks with the project's field (decision 17)."""
    if request.last_words and not request.topics:
        if not context.is_forwarded and not context.is_internal:  # a voter says it itself, on a controller's listener
            server.heard_last_words(request.last_words_of, request.last_words)
        return Reply(DescribeQuorumResponse(error_message=""))
    if request.wants_node_view and not request.topics:
        return Reply(DescribeQuorumResponse(error_message="", node_views=(server.view(),)))
    asked = server.local.ask_raft(request, context)
    return _with_views(request, asked, server) if request.wants_node_view or request.wants_broker_views else asked


def _with_views(request: DescribeQuorumRequest, asked: Deferred, server: ControllerServer) -> Deferred:
    """The same answer, and the views that are wanted beside it: of this node, and where it is active of the brokers."""
    answer = Deferred(deadline_ms=asked.deadline_ms)

    def add(reply: AnyReply) -> None:
        if isinstance(reply, Reply) and isinstance(reply.message, DescribeQuorumResponse):
            nodes = (server.view(),) if request.wants_node_view else ()
            brokers = server.broker_views() if request.wants_broker_views else ()
            reply = Reply(replace(reply.message, node_views=nodes, broker_views=brokers))
        answer.complete(reply)

    asked.when_done(add)
    return answer
