"""The quorum as its leader sees it, or as this node sees it (DescribeQuorum)."""

from __future__ import annotations

from headrace.node.controller_server import ControllerServer
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(request: DescribeQuorumRequest, context: RequestContext, server: ControllerServer) -> Deferred | Reply:
    """The leader describes the quorum. Who wants a view of this very node, leader or not, asks with the project's field (decision 17)."""
    if request.last_words and not request.topics:
        if not context.is_forwarded and not context.is_internal:  # a voter says it itself, on a controller's listener
            server.heard_last_words(request.last_words_of, request.last_words)
        return Reply(DescribeQuorumResponse(error_message=""))
    if request.wants_node_view and not request.topics:
        return Reply(DescribeQuorumResponse(error_message="", node_views=(server.view(),)))
    return server.local.ask_raft(request, context)
