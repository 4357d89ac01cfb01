"""What a connection remembers: requests whose replies are still to come, and headers that it has seen.

A hot file: nothing is checked here.
"""

from __future__ import annotations

from headrace.rpc.apis import ApiRow, handler_of
from headrace.rpc.context import RequestContext
from headrace.rpc.metering import Timing, VersionCount
from headrace.rpc.raw_crowds import RawHandler
from headrace.rpc.reply import AnyReply, Deferred


class Slot:
    """A request whose reply is still to come, or waits for an earlier one."""

    __slots__ = ("correlation_id", "deferred", "flexible", "reply", "row", "timing", "version")

    def __init__(self, row: ApiRow, version: int, correlation_id: int, *, flexible: bool) -> None:
        self.row = row
        self.version = version
        self.correlation_id = correlation_id
        self.flexible = flexible
        self.reply: AnyReply | None = None
        self.deferred: Deferred | None = None
        self.timing: Timing | None = None


class HotHeader:
    """A header that was seen on this connection, understood once: everything but the correlation id.

    `context.now_ms` and `context.correlation_id` are those of the first such request. `counts` is None where nobody wants metrics.
    """

    __slots__ = ("context", "counts", "end", "flexible", "handle", "handle_larger", "header", "row")
    counts: VersionCount | None

    def __init__(
        self,
        row: ApiRow,
        handle_larger: RawHandler,
        context: RequestContext,
        header: bytes,
        end: int,
        *,
        flexible: bool,
    ) -> None:
        self.row = row
        self.context = context
        self.header = header
        self.end = end
        self.flexible = flexible
        self.handle = handler_of(row)
        self.handle_larger = handle_larger
        self.counts = None
