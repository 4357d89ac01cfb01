"""What a controller's listener serves (ApiVersions)."""

from __future__ import annotations

from headrace.broker.handlers.api_versions import api_versions
from headrace.node.controller_server import ControllerServer
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.api_versions import ApiVersionsRequest


def handle(request: ApiVersionsRequest, context: RequestContext, server: ControllerServer) -> Reply:
    """The rows of this listener and the cluster's features."""
    answer = api_versions(
        request, context, rows=CONTROLLER_APIS, image=server.image(), kraft_version=server.kraft_version()
    )
    return Reply(answer)
