"""What a coordinator brings to the runtime: what its records mean, and what it decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from headrace.coordinator.runtime.events import LogRecord, RequestReceived
from headrace.core.error_code import ErrorCode

NO_PRODUCER = -1

S = TypeVar("S")
R = TypeVar("R")


class RecordRules(Protocol[S, R]):
    """What records of type R mean for a state of type S, which nobody ever changes: `replay` makes another one of it, at the cost of what differs.

    The only place where a state comes from: a load and the coordinator's own decisions go the same way.
    """

    def empty(self) -> S:
        """The state of an empty log."""

    def read(self, record: LogRecord) -> R | None:
        """What a record in the log says, or None when its type is unknown (a newer release may have left it). Raises DecodeError on damage."""

    def written(self, record: R) -> LogRecord:
        """The record as it lies in the log; `read` gives the same back."""

    def replay(self, state: S, records: Iterable[R], producer_id: int = NO_PRODUCER) -> S:
        """The state after these records. In a transaction of `producer_id` they count when that ends."""

    def end_transaction(self, state: S, producer_id: int, *, is_committed: bool) -> S:
        """The state after a transaction ended."""


class Coordinator(Protocol):
    """What is decided for one shard, which it holds: each method may append to it, answer, and set deadlines."""

    def restore(self, *, now_ms: int) -> bool:
        """The log is read: make a turn of what is derived from the state, without appending. False: there is more to make, at the next TimePassed."""

    def loaded(self, *, now_ms: int) -> None:
        """Everything is restored; requests come from now on."""

    def serve(self, event: RequestReceived) -> None:
        """Decide about a request."""

    def refusal(self, request: Any, error: ErrorCode) -> object:
        """The response to a request whose append had this error (as `Shard.append` tells, NOT_COORDINATOR at the end of the leadership)."""

    def written(self, then: Any, error: ErrorCode, *, now_ms: int) -> None:
        """What was to follow an append follows now (error NONE: it is committed), or gives up."""

    def image_changed(self, change: Any, *, now_ms: int) -> None:
        """Keep in step with a change of the metadata."""

    def ring(self, timer: Any, *, now_ms: int) -> None:
        """A deadline of the shard has come."""

    def resigned(self) -> None:
        """Answer whoever waits without having written anything; the shard is over."""
