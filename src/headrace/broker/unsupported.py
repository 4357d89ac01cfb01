"""Refusals of what is not built yet, told to the operator: whose client wants it, and what to set in its place."""

from __future__ import annotations

from typing import Final

from headrace.broker.broker import Broker
from headrace.core.notice import Notice
from headrace.rpc.context import RequestContext

NO_TRANSACTIONS: Final = "transactions, which are not supported yet: leave out transactional.id"
NO_CONSUMER_PROTOCOL: Final = "the consumer protocol, which is not supported yet: set group.protocol=classic"


def tell_unsupported(broker: Broker, context: RequestContext, what: str) -> None:
    """A client was refused; the driver writes few of these lines for one host."""
    text = f"client {context.client_id or '(without an id)'} of {context.client_host} asks for {what}"
    broker.on_notice(Notice("unsupported", context.client_host, text))
