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
    return _with_view(asked, server) if request.wants_node_view else asked


def _with_view(asked: Deferred, server: ControllerServer) -> Deferred:
    """The same answer, and the view beside it."""
    answer = Deferred(deadline_ms=asked.deadline_ms)

    def add(reply: AnyReply) -> None:
        if isinstance(reply, Reply) and isinstance(reply.message, DescribeQuorumResponse):
            reply = Reply(replace(reply.message, node_views=(server.view(),)))
        answer.complete(reply)

    asked.when_done(add)
    return answer
