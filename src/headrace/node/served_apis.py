"""The APIs of a controller's listener, bound to the modules that answer them there. Their handlers are given the node's `ControllerServer`."""

from __future__ import annotations

from typing import Final

from headrace.rpc.apis import CONTROLLER, AnsweredBy, ApiRow, rows_on

HANDLERS: Final = {
    AnsweredBy.HANDLER: "headrace.node.controller_handlers.{name}",
    AnsweredBy.CONTROLLER: "headrace.node.controller_requests",
    AnsweredBy.QUORUM: "headrace.node.raft_requests",
}

CONTROLLER_APIS: Final[tuple[ApiRow, ...]] = rows_on(CONTROLLER, HANDLERS)
