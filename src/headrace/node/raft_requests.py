"""Requests of the metadata quorum: votes, fetches of the metadata log and its snapshots, questions about it."""

from __future__ import annotations

from headrace.node.controller_side import ControllerSide
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred


def handle(request: object, context: RequestContext, side: ControllerSide) -> Deferred:
    """Answered by the quorum node, now or when there is something to tell."""
    return side.local.ask_raft(request, context)
