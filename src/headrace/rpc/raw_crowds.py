"""Larger requests that are read raw, where very many connections send one at the same moment.

A Fetch of hundreds of partitions takes a good part of ten milliseconds. What is read raw is handled as it comes; once a turn has handled as much as it may
(`LongWork.is_crowded`), larger requests are handled in later ones. Not Produce: its requests may be many on one connection, and have an order
and shares of their own (`net.turn_shares`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import LongWork, Steps
from headrace.rpc.reply import EncodedReply, HandlerResult, HotResult, InSteps

RawHandler = Callable[[memoryview, RequestContext, Any], HotResult]

LARGER_BYTES: Final = 256
"""A Fetch of six partitions; the usual one, of a session, is smaller."""
LONG_BYTES: Final = 16 << 10
"""From here on they wait in the row of long requests, and are refused where these hold all memory that they may. Others do not: followers send them."""


def in_turns(handle: RawHandler, work: LongWork) -> RawHandler:
    """The handler, for connections that share `work`."""

    def handled(body: memoryview, context: RequestContext, target: Any) -> HotResult:
        if len(body) < LARGER_BYTES:
            return handle(body, context, target)
        if work.is_crowded:
            size = len(body) if len(body) >= LONG_BYTES else 0
            return InSteps(_later(handle, bytes(body), context, target), size=size)
        began_s = work.clock()
        try:
            return handle(body, context, target)
        finally:
            work.spent(work.clock() - began_s)

    return handled


def _later(handle: RawHandler, body: bytes, context: RequestContext, target: Any) -> Steps[HandlerResult]:
    """The answer, when others had their turn. Raises DecodeError."""
    result = handle(memoryview(body), context, target)
    del body
    if isinstance(result, InSteps):
        return (yield from result.steps)
    if isinstance(result, bytes):
        return EncodedReply((result,))
    return EncodedReply(result) if isinstance(result, tuple) else result
