"""Requests of the metadata quorum: votes, fetches of the metadata log and its snapshots, descriptions of it."""

from __future__ import annotations

from headrace.node.controller_server import ControllerServer
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred


def handle(request: object, context: RequestContext, server: ControllerServer) -> Deferred:
    """Answered by the quorum node, now or when there is something to tell."""
    return server.local.ask_raft(request, context)
