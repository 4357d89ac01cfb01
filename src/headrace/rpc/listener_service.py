"""What a listener serves, and what its connections are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.rpc.apis import ApiRow, handler_of
from headrace.rpc.long_work import LongWork
from headrace.rpc.metering import RequestMeter
from headrace.rpc.raw_crowds import RawHandler, in_turns


@dataclass(slots=True, kw_only=True)
class ListenerService:
    """The service of one listener: its APIs, what their handlers are given, and the clock.

    `refuses` may answer an API that is not in `rows` (S1-52); what it does not answer closes the connection (B-W04). `on_closed` is told the
    number of each connection that is gone. While `is_shut`
    says so, a request closes its connection, but for what replicas ask (`headrace.self.fencing=always`); None: it never does. `meter` counts
    requests where somebody wants metrics.
    """

    listener: str
    rows: dict[int, ApiRow]
    target: Any
    now_ms: Callable[[], int]
    is_controller_listener: bool = False
    refuses: dict[int, ApiRow]
    max_in_flight: int = 1000
    on_closed: Callable[[int], None] | None = None
    is_shut: Callable[[], bool] | None = None
    meter: RequestMeter | None = None
    long_work: LongWork = field(default_factory=lambda: LongWork(soon=None, clock=lambda: 0.0))

    def raw_handler(self, row: ApiRow) -> RawHandler:
        """The handler of an API whose requests are read raw."""
        handle = handler_of(row)
        return handle if row.is_pipelined else in_turns(handle, self.long_work)
