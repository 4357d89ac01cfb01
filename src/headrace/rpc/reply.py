"""What a handler gives back: a response now, or one that comes later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final, Protocol

from headrace.core.values import value_class


class ReadableSlice(Protocol):
    """Bytes that lie in a file and travel to the socket without a handler seeing them."""

    @property
    def size(self) -> int:
        """Length in bytes."""


@value_class(kw_only=False)
class Reply:
    """A response message, encoded at the request's version when it leaves."""

    message: Any


@value_class(kw_only=False)
class EncodedReply:
    """A response body that is encoded already: pieces of bytes and of files, sent in this order.

    The response header is not part of it.
    """

    pieces: tuple[bytes | bytearray | memoryview | ReadableSlice, ...]


@value_class(kw_only=False)
class NoReply:
    """The request has no answer on the wire (Produce with acks=0)."""


@value_class(kw_only=False)
class CloseConnection:
    """The request is answered by closing its connection; `reason` goes to the log."""

    reason: str


class InSteps:
    """An answer that takes long to make: a generator that does a bounded piece of work between two yields and returns the answer.

    It may yield a `Deferred`, whose reply it is sent, or `OTHERS_FIRST`. See `headrace.rpc.long_work`. `size` is what it keeps of its request, in bytes. With `holds_back`
    the connection's next request is not begun before the answer; with `keeps_frame` the steps read the request where it was received. What
    `outlives_asker` is done to its end also when the connection has closed. Of what is `mostly_short` the first steps are taken at once where no crowd asks;
    they wait for no reply. Requests with `asks_for_all` are no crowd in which one that names what it wants must wait.
    """

    __slots__ = ("asks_for_all", "holds_back", "keeps_frame", "mostly_short", "outlives_asker", "size", "steps")

    def __init__(
        self,
        steps: Generator[Deferred | None, AnyReply | None, HandlerResult],
        *,
        size: int = 0,
        holds_back: bool = False,
        keeps_frame: bool = False,
        outlives_asker: bool = False,
        mostly_short: bool = False,
    ) -> None:
        self.asks_for_all = False
        self.steps = steps
        self.size = size
        self.holds_back = holds_back
        self.keeps_frame = keeps_frame
        self.outlives_asker = outlives_asker
        self.mostly_short = mostly_short


AnyReply = Reply | EncodedReply | NoReply | CloseConnection | InSteps
NO_REPLY = NoReply()


class Operation(Enum):
    """What a reply that waits is of, as the label `delayedOperation` of Kafka's metrics has it."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    DELETE_RECORDS = "DeleteRecords"
    OTHER = "Other"

    __hash__ = object.__hash__  # that of an Enum is a call of Python code, and each write that waits is counted


class Holder(Protocol):
    """Keeps deferreds that wait; see `headrace.rpc.purgatory`."""

    def release(self, deferred: Deferred, /) -> None:
        """It waits no more."""


class Deferred:
    """An answer that comes later. The handler keeps it, and completes it once.

    States: waiting -> done (by `complete`, by `expire`, or by `abandon` when the asker has gone). Whatever comes after the first
    of them changes nothing, so whoever races for it need not ask.

    `deadline_ms` is on the clock of `Broker.now_ms`; with None it waits for ever. `on_timeout` makes the reply at the deadline; the purgatory
    calls it. `number` and `holder` are those of the purgatory that holds it; whoever completes it need not tell the purgatory; `operation` is what it
    counts as there. With `holds_back` the connection's next request is not begun before the reply, though it might be: it could overtake this one.
    """

    __slots__ = (
        "_abandoned",
        "_on_done",
        "_reply",
        "deadline_ms",
        "holder",
        "holds_back",
        "number",
        "on_abandoned",
        "on_timeout",
        "operation",
    )

    def __init__(
        self,
        *,
        deadline_ms: int | None = None,
        on_timeout: Callable[[], AnyReply] | None = None,
        on_abandoned: Callable[[], None] | None = None,
        holds_back: bool = False,
        operation: Operation = Operation.OTHER,
    ) -> None:
        self.holds_back = holds_back
        self.operation = operation
        self.deadline_ms = deadline_ms
        self.on_timeout = on_timeout
        self.on_abandoned = on_abandoned
        self._reply: AnyReply | None = None
        self._on_done: Callable[[AnyReply], object] | None = None
        self._abandoned = False
        self.number = -1
        self.holder: Holder | None = None

    @property
    def is_done(self) -> bool:
        """Whether a reply was given, or nobody waits for one any more."""
        return self._reply is not None or self._abandoned

    @property
    def reply(self) -> AnyReply | None:
        """The reply, once there is one."""
        return self._reply

    def complete(self, reply: AnyReply) -> bool:
        """Give the reply. False when there was one before or the asker has gone."""
        if self._reply is not None or self._abandoned:
            return False
        self._reply = reply
        self.on_timeout = self.on_abandoned = None
        if self.holder is not None:
            self.holder.release(self)
        on_done, self._on_done = self._on_done, None  # no cycle is left for the garbage collector
        if on_done is not None:
            on_done(reply)
        return True

    def expire(self) -> bool:
        """The deadline has come: reply with what `on_timeout` says. False when it was done before."""
        if self.is_done or self.on_timeout is None:
            return False
        return self.complete(self.on_timeout())

    def abandon(self) -> None:
        """The asker has gone; no reply is wanted."""
        if not self.is_done:
            self._abandoned = True
            if self.holder is not None:
                self.holder.release(self)
            on_abandoned, self.on_abandoned = self.on_abandoned, None
            self.on_timeout = self._on_done = None
            if on_abandoned is not None:
                on_abandoned()

    def when_done(self, callback: Callable[[AnyReply], object]) -> None:
        """Call `callback` with the reply, at once when it is there already. One callback at most."""
        assert self._on_done is None, "a deferred has one listener"
        if self._reply is not None:
            callback(self._reply)
        else:
            self._on_done = callback


HandlerResult = AnyReply | Deferred
OTHERS_FIRST: Final = Deferred()
"""What steps yield before one that takes long, as a decision of the controller does: all who have run little are before it, as if this work had run for long."""


Pieces = tuple[bytes, ReadableSlice, bytes] | tuple[bytes, ReadableSlice]
"""An encoded body around one slice of a file."""
HotResult = bytes | Pieces | HandlerResult
"""What a handler may give: also the encoded body itself, whole or around a slice, where it reads raw bytes, and an answer that is made in steps."""


_STEPS_AT_ONCE = 8
"""Half a millisecond."""


def begun(result: HotResult) -> HotResult:
    """The answer itself where a few steps make it, as nearly always; else the rest of the steps."""
    if not isinstance(result, InSteps) or not result.mostly_short:
        return result
    try:
        for _ in range(_STEPS_AT_ONCE):
            waits_for = next(result.steps)
            assert waits_for in (None, OTHERS_FIRST), "the first steps wait for nobody"
    except StopIteration as end:
        found: HandlerResult = end.value
        return found
    return result
