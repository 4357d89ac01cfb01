"""The APIs of a broker's listener, bound to the modules that answer them there."""

from __future__ import annotations

from typing import Final

from headrace.rpc.apis import BROKER, AnsweredBy, ApiRow, refused_rows, rows_on

HANDLERS: Final = {
    AnsweredBy.HANDLER: "headrace.broker.handlers.{name}",
    AnsweredBy.CONTROLLER: "headrace.broker.forwarding",
    AnsweredBy.QUORUM: "headrace.broker.forwarding",
}

BROKER_APIS: Final[tuple[ApiRow, ...]] = rows_on(BROKER, HANDLERS)
NOT_CONTROLLER_APIS: Final[tuple[ApiRow, ...]] = refused_rows("headrace.broker.handlers.not_controller")
